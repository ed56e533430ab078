#include "apps/conversation.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/jsonl.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kFields = {"messages",
                                                     "tools",
                                                     "documents",
                                                     "chat_template_kwargs",
                                                     "add_generation_prompt",
                                                     "continue_final_message"};

// What a template's variables must not be overridden with: its other inputs, and options of the
// functions that render templates elsewhere, which would be silently ignored here.
constexpr std::array<std::string_view, 11> kReservedKwargs = {
    "messages",      "tools",          "documents",      "add_generation_prompt",
    "chat_template", "conversation",   "tokenize",       "continue_final_message",
    "return_dict",   "return_tensors", "raise_exception"};

Status read_messages(const json::value& value, const std::string& where, json::array& messages) {
  if (!value.is_array()) {
    return Status::invalid_argument(
        fmt::format("{}: messages: expected an array, found {}", where, json_kind_name(value)));
  }
  for (std::size_t i = 0; i < value.get_array().size(); ++i) {
    const json::value& message = value.get_array()[i];
    if (message.is_object()) continue;
    return Status::invalid_argument(fmt::format("{}: messages[{}]: expected an object, found {}",
                                                where, i, json_kind_name(message)));
  }
  messages = value.get_array();
  return {};
}

Status read_optional_array(const JsonReader& reader, std::string_view key,
                           std::optional<json::value>& target) {
  const json::value* value = reader.find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return reader.type_error(key, "an array");
  target = *value;
  return {};
}

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

Result<Conversation> parse_conversation(const json::value& value, const std::string& where) {
  Conversation conversation;
  if (value.is_array()) {
    QUIRE_RETURN_IF_ERROR(read_messages(value, where, conversation.messages));
    return conversation;
  }
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected a list of messages or an object with messages, found {}", where,
                    json_kind_name(value)));
  }
  const JsonReader reader(value.get_object(), where, StatusCode::kInvalidArgument);
  QUIRE_RETURN_IF_ERROR(check_fields(reader, kFields));
  const json::value* messages = reader.find("messages");
  if (messages == nullptr) return reader.type_error("messages", "an array");
  QUIRE_RETURN_IF_ERROR(read_messages(*messages, where, conversation.messages));
  QUIRE_RETURN_IF_ERROR(read_optional_array(reader, "tools", conversation.tools));
  QUIRE_RETURN_IF_ERROR(read_optional_array(reader, "documents", conversation.documents));
  if (const json::value* kwargs = reader.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return reader.type_error("chat_template_kwargs", "an object");
    for (const auto& entry : kwargs->get_object()) {
      if (std::ranges::find(kReservedKwargs, std::string_view(entry.key())) ==
          kReservedKwargs.end()) {
        continue;
      }
      return Status::invalid_argument(fmt::format("{}: chat_template_kwargs: \"{}\" is reserved",
                                                  where, std::string_view(entry.key())));
    }
    conversation.chat_template_kwargs = kwargs->get_object();
  }
  QUIRE_ASSIGN_OR_RETURN(const auto continues, reader.find_bool("continue_final_message"));
  QUIRE_ASSIGN_OR_RETURN(const auto prompts, reader.find_bool("add_generation_prompt"));
  conversation.continue_final_message = continues.value_or(false);
  conversation.add_generation_prompt = prompts.value_or(!conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    return Status::invalid_argument(
        fmt::format("{}: continue_final_message and add_generation_prompt exclude each other",
                    where),
        "a prompt ends either within the last message or where a new one begins");
  }
  return conversation;
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
