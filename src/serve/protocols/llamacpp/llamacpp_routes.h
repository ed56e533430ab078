// The routes of llama.cpp's server that its editors and pages use: /completion, /infill, /props,
// /slots, /apply-template. Prompts go the way of /v1/completions; requests and answers have
// llama.cpp's words.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

std::vector<Route> llamacpp_routes(Service& service);

}  // namespace quire
