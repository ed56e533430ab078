// The conversation of a request, as OpenAI's clients send it, made ready for the model's template.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "engine/api.h"
#include "text/conversation.h"

namespace quire {

// The messages of a request, checked, and what goes with them: documents, chat_template_kwargs,
// add_generation_prompt, continue_final_message. Messages are an array of objects with a role,
// whose content is text, a list of text parts, or nothing; parts are joined, for templates that
// know only text. Of tool calls the arguments become objects. A role or calls that the template has
// no place for are errors; `developer` becomes `system` there. Errors start with the name of the
// field.
Result<Conversation> read_conversation(const JsonReader& fields, const Engine& engine);

// What of that is about calls and reasoning of the past, for one message whose content is text.
// `where` begins errors.
Status prepare_message(json::object& message, const std::string& where,
                       std::string_view chat_template);

}  // namespace quire
