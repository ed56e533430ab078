#include "serve/protocols/openai/schema_in_prompt.h"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/protocols/openai/chat_messages.h"

namespace quire {
namespace {

Result<std::string> told_constraint(const StructuredOutputsParams& constraint) {
  if (constraint.json) {
    return fmt::format("Answer with JSON that is valid under this JSON Schema:\n{}",
                       *constraint.json);
  }
  if (constraint.json_object) return std::string("Answer with a JSON object.");
  if (constraint.regex) {
    return fmt::format("Answer with a text that matches this regular expression:\n{}",
                       *constraint.regex);
  }
  if (!constraint.choice.empty()) {
    return fmt::format("Answer with one of these texts:\n{}", fmt::join(constraint.choice, "\n"));
  }
  if (constraint.grammar) {
    return fmt::format("Answer with a text of this grammar:\n{}", *constraint.grammar);
  }
  return Status::invalid_argument(
      fmt::format("{}: a structural tag cannot be described in the prompt", kSchemaInPromptField),
      "describe it in a message, or leave the field out");
}

bool is_system(const json::value& message) {
  const json::value* role = message.get_object().if_contains("role");
  return role != nullptr && role->is_string() && role->get_string() == "system";
}

}  // namespace

Status show_schema(const JsonReader& fields, std::string_view chat_template, SamplingParams& params,
                   Conversation& conversation) {
  QUIRE_ASSIGN_OR_RETURN(const auto wanted, fields.find_bool(kSchemaInPromptField));
  if (!wanted.value_or(false)) return {};
  if (params.structured_outputs == nullptr) {
    return Status::invalid_argument(
        fmt::format("{}: nothing constrains the text", kSchemaInPromptField),
        "give response_format or structured_outputs, or leave the field out");
  }
  QUIRE_ASSIGN_OR_RETURN(std::string told, told_constraint(*params.structured_outputs));
  json::array& messages = conversation.messages;
  const json::value* content = nullptr;
  if (!messages.empty() && is_system(messages.front())) {
    content = messages.front().get_object().if_contains("content");
  }
  if (content != nullptr && content->is_string()) {
    const std::string_view before = content->get_string();
    messages.front().get_object()["content"] = fmt::format("{}\n\n{}", before, told);
  } else {
    json::object message = {{"role", "system"}, {"content", std::move(told)}};
    QUIRE_RETURN_IF_ERROR(
        prepare_message(message, std::string(kSchemaInPromptField), chat_template));
    messages.insert(messages.begin(), std::move(message));
  }
  auto constraint = std::make_shared<StructuredOutputsParams>(*params.structured_outputs);
  constraint->told_in_prompt = true;
  params.structured_outputs = std::move(constraint);
  return {};
}

}  // namespace quire
