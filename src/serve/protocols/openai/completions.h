// POST /v1/completions.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/generation_answer.h"
#include "serve/protocols/openai/text_limits.h"

namespace quire {

// A request's body to what the engine is given. For fuzzing and tests; the route does just that.
std::variant<GenerationJob, ApiError> parse_completion_request(std::string_view body,
                                                               const Service& service, bool& echo,
                                                               ClientGone gone = {});

std::vector<Route> completion_routes(Service& service);

}  // namespace quire
