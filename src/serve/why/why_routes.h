// GET /requests/{id}/why: where a request's time went, by the id that its answer had.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "serve/http/router.h"
#include "serve/why/request_directory.h"

namespace quire {

// {"id", "object": "request.why", "outputs": [story_json()...]}, with an output for each prompt and
// each of its n, of requests that run and of the last ones that RequestDirectory keeps. 404 for
// others. `scoped_by_key`: requests find what those of the same key have left, and nothing else.
// `cost_of`: ServedModel's.
using CostOf = std::function<std::optional<double>(Duration step_time)>;
std::vector<Route> why_routes(Engine& engine, RequestDirectory& directory, bool scoped_by_key,
                              CostOf cost_of);

}  // namespace quire
