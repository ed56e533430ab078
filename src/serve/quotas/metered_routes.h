// Keeps each key within its limits, before a request's body is parsed: wraps the routes that
// generate.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/quotas/key_quotas.h"

namespace quire {

// `routes` with those that are metered (Route::metered) answering 429 and Retry-After where the key
// has reached a limit. All their answers say what the key may ask for and what is left of that, in
// the headers that OpenAI's clients know: x-ratelimit-limit-requests, x-ratelimit-limit-tokens,
// x-ratelimit-remaining-..., x-ratelimit-reset-... (until all is there again: "12.5s"). As they are
// where nothing is limited. `quotas` outlives the routes.
std::vector<Route> metered_routes(std::vector<Route> routes, KeyQuotas& quotas);

}  // namespace quire
