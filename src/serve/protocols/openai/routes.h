// All routes of the OpenAI-compatible API that need no state of their own on disk.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

std::vector<Route> openai_routes(Service& service);

}  // namespace quire
