// What the page has to know of the server before a user's first request: names, limits, sampling
// parameters with the defaults in effect, the model's sizes and the memory plan.
#pragma once

#include "base/json.h"
#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

// {"model": {...}, "engine": {...}, "memory_plan": {...} or null, "sampling": [...], ...}
json::object page_info(const ServedModel& served);

// GET /page/info
Route page_info_route(Service& service);

}  // namespace quire
