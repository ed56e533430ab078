// GET /v1/models and /v1/models/{model}.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

std::vector<Route> model_routes(Service& service);

}  // namespace quire
