// POST /tokenize and /detokenize, as vLLM has them.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

std::vector<Route> tokenization_routes(Service& service);

}  // namespace quire
