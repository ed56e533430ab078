// A conversation as a file holds it: a list of messages, or an object with "messages" and what else
// a chat template may see.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat_template.h"

namespace quire {

struct Conversation {
  json::array messages;
  std::optional<json::value> tools;
  std::optional<json::value> documents;
  json::object chat_template_kwargs;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends within the last message
};

// Reads a list of messages or an object. add_generation_prompt defaults to true, or to false where
// the final message is to be continued. Errors (kInvalidArgument) name the field: one that is not
// known, of another type, or contradicting another.
Result<Conversation> parse_conversation(const json::value& value, const std::string& where);

// Renders with `input`'s special tokens and time. Where the final message is continued, what the
// template wrote after its content is cut off, as transformers does (kInvalidArgument if the
// content does not stand in the prompt).
Result<std::vector<TextSegment>> render_conversation(const ChatTemplate& chat_template,
                                                     const Conversation& conversation,
                                                     ChatTemplateInput input);

}  // namespace quire
