#include "text/conversation.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

// What a template's variables must not be overridden with: its other inputs, and options of the
// functions that render templates elsewhere, which would be silently ignored here.
constexpr std::array<std::string_view, 11> kReservedKwargs = {
    "messages",      "tools",          "documents",      "add_generation_prompt",
    "chat_template", "conversation",   "tokenize",       "continue_final_message",
    "return_dict",   "return_tensors", "raise_exception"};

std::string_view trim(std::string_view text, bool left, bool right) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  if (left) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (right) text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  return text;
}

// The text of a message: its content, or the last text part of it.
Result<std::string> content_of(const json::object& message) {
  const json::value* content = message.if_contains("content");
  if (content != nullptr && content->is_array()) {
    const auto& parts = content->get_array();
    const auto part = std::find_if(parts.rbegin(), parts.rend(), [](const json::value& item) {
      return item.is_object() && item.get_object().contains("text");
    });
    content = part == parts.rend() ? nullptr : part->get_object().if_contains("text");
  }
  if (content == nullptr || !content->is_string()) {
    return Status::invalid_argument(
        "continue_final_message: the last message has no text to continue");
  }
  return std::string(content->get_string());
}

Status cut_after_final_message(const Conversation& conversation,
                               std::vector<TextSegment>& segments) {
  if (conversation.messages.empty()) {
    return Status::invalid_argument("continue_final_message: there is no message to continue");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string content,
                         content_of(conversation.messages.back().get_object()));
  const std::string prompt = join(segments);
  const std::string_view core = trim(content, true, true);
  const std::size_t at = prompt.rfind(core);
  if (at == std::string::npos) {
    return Status::invalid_argument(
        "continue_final_message: the chat template leaves out or changes the last message's text");
  }
  // White space at the content's end counts where the template kept it.
  const std::string_view with_tail = trim(content, true, false);
  const bool kept = std::string_view(prompt).substr(at).starts_with(with_tail);
  std::size_t left = at + (kept ? with_tail.size() : core.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (left >= segments[i].text.size()) {
      left -= segments[i].text.size();
      continue;
    }
    segments[i].text.resize(left);
    segments.resize(left > 0 ? i + 1 : i);
    break;
  }
  return {};
}

}  // namespace

Status check_chat_template_kwargs(const json::object& kwargs) {
  for (const auto& entry : kwargs) {
    if (std::ranges::find(kReservedKwargs, std::string_view(entry.key())) ==
        kReservedKwargs.end()) {
      continue;
    }
    return Status::invalid_argument(
        fmt::format("chat_template_kwargs: \"{}\" is reserved", printable(entry.key())));
  }
  return {};
}

Result<std::vector<TextSegment>> render_conversation(const ChatTemplate& chat_template,
                                                     const Conversation& conversation,
                                                     ChatTemplateInput input) {
  input.messages = conversation.messages;
  input.tools = conversation.tools;
  input.documents = conversation.documents;
  input.kwargs = conversation.chat_template_kwargs;
  input.add_generation_prompt = conversation.add_generation_prompt;
  QUIRE_ASSIGN_OR_RETURN(auto segments, chat_template.render(input));
  if (conversation.continue_final_message) {
    QUIRE_RETURN_IF_ERROR(cut_after_final_message(conversation, segments));
  }
  return segments;
}

}  // namespace quire
