// `schema_in_prompt`: what the text must be is said in the conversation too. A mask cannot give
// sense to a model that does not know what is wanted.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "engine/api.h"
#include "text/conversation.h"

namespace quire {

inline constexpr std::string_view kSchemaInPromptField = "schema_in_prompt";

// Where the request asks for it, puts what `params` constrain its text to at the end of the
// conversation's system message, or into one before all others, and marks the constraint as told.
// The conversation is one that read_conversation or prepare_message has made ready for
// `chat_template`. kInvalidArgument where there is no constraint, or one that is no text, and for a
// template that has no place for a system message.
Status show_schema(const JsonReader& fields, std::string_view chat_template, SamplingParams& params,
                   Conversation& conversation);

}  // namespace quire
