// A conversation as a file has it: a list of messages, or an object with "messages" and what else
// a chat template may see.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "text/conversation.h"

namespace quire {

// Reads a list of messages or an object. add_generation_prompt defaults to true, or to false where
// the final message is to be continued. Errors (kInvalidArgument) name the field: one that is not
// known, of another type, or contradicting another.
Result<Conversation> parse_conversation(const json::value& value, const std::string& where);

}  // namespace quire
