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
    if (const Status status = check_chat_template_kwargs(kwargs->get_object()); !status.ok()) {
      return Status::invalid_argument(fmt::format("{}: {}", where, status.message()));
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

}  // namespace quire
