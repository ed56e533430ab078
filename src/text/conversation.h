// A conversation and how its prompt is rendered: what every front end makes of a user's messages.
#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat_template.h"

namespace quire {

struct Conversation {
  json::array messages;  // each an object
  std::optional<json::value> tools;
  std::optional<json::value> documents;
  json::object chat_template_kwargs;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends within the last message
};

// What chat_template_kwargs may not set: a template's other inputs, and options of functions that
// render templates elsewhere, which would be silently ignored here. kInvalidArgument naming it.
Status check_chat_template_kwargs(const json::object& kwargs);

// Renders with `input`'s special tokens and time. Where the final message is continued, what the
// template wrote after its content is cut off, as transformers does (kInvalidArgument if the
// content does not stand in the prompt).
Result<std::vector<TextSegment>> render_conversation(const ChatTemplate& chat_template,
                                                     const Conversation& conversation,
                                                     ChatTemplateInput input);

}  // namespace quire
