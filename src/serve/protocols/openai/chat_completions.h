// POST /v1/chat/completions.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/generation_answer.h"
#include "serve/protocols/openai/text_limits.h"

namespace quire {

// A request's body to what the engine is given. For fuzzing and tests; the route does just that.
// `role` is set to that of the answer's message.
std::variant<GenerationJob, ApiError> parse_chat_request(std::string_view body,
                                                         const Service& service, std::string& role,
                                                         ClientGone gone = {});

std::vector<Route> chat_completion_routes(Service& service);

}  // namespace quire
