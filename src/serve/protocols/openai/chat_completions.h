// POST /v1/chat/completions.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/generation_answer.h"
#include "serve/protocols/openai/text_limits.h"
#include "text/conversation.h"

namespace quire {

// A request's body to what the engine is given. For fuzzing and tests; the route does just that.
// `role` is set to that of the answer's message.
std::variant<GenerationJob, ApiError> parse_chat_request(std::string_view body,
                                                         const Service& service, std::string& role,
                                                         ClientGone gone = {});

// The messages of a request, checked: an array of objects with a role, whose content is text, a
// list of text parts, or nothing. Parts are joined, for templates that know only text. Errors start
// with the name of the field.
Result<json::array> read_chat_messages(const JsonReader& fields);

// Those messages and what goes with them: documents, chat_template_kwargs, add_generation_prompt,
// continue_final_message.
Result<Conversation> read_conversation(const JsonReader& fields);

std::vector<Route> chat_completion_routes(Service& service);

}  // namespace quire
