#include "serve/protocols/openai/chat_messages.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "serve/http/field_text.h"
#include "serve/protocols/openai/request_fields.h"

namespace quire {
namespace {

constexpr std::size_t kMaxMessages = 4096;

// A list of parts as one text; kUnimplemented for an image or a sound.
Result<json::value> join_parts(const json::array& parts, std::size_t message) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = fmt::format("messages[{}].content[{}]", message, i);
    if (!parts[i].is_object()) {
      return Status::invalid_argument(
          fmt::format("{}: expected an object, found {}", where, json_kind_name(parts[i])));
    }
    const JsonReader part(parts[i].get_object(), where, StatusCode::kInvalidArgument);
    QUIRE_ASSIGN_OR_RETURN(const auto type, part.find_string("type"));
    if (!type) return Status::invalid_argument(fmt::format("{}.type: it is missing", where));
    if (*type != "text") {
      return Status::unimplemented(fmt::format(
          "{}.type: \"{}\" is not supported; this model reads text", where, clipped(*type, 40)));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto piece, part.find_string("text"));
    if (!piece) return Status::invalid_argument(fmt::format("{}.text: it is missing", where));
    text += *piece;
  }
  return json::value(std::move(text));
}

// Whether a template has a word of its own for something: 'tool', "developer".
bool quotes(std::string_view source, std::string_view word) {
  return source.find(fmt::format("'{}'", word)) != std::string_view::npos ||
         source.find(fmt::format("\"{}\"", word)) != std::string_view::npos;
}

// Most templates expect arguments as an object; some put them together with other text
// (DeepSeek-R1's).
bool takes_arguments_as_text(std::string_view source) {
  return source.find("['arguments'] +") != std::string_view::npos ||
         source.find(".arguments +") != std::string_view::npos;
}

// Whether a template asks if a message has no content at all, rather than none in it.
bool asks_for_no_content(std::string_view source) {
  return source.find("['content'] is none") != std::string_view::npos ||
         source.find("message.content is none") != std::string_view::npos;
}

// Clients send arguments as the text of an object.
Status read_arguments(json::object& call, const std::string& where, std::string_view source) {
  json::value* function = call.if_contains("function");
  if (function == nullptr || !function->is_object()) {
    return Status::invalid_argument(fmt::format("{}.function: expected an object", where));
  }
  const json::value* name = function->get_object().if_contains("name");
  if (name == nullptr || !name->is_string()) {
    return Status::invalid_argument(fmt::format("{}.function.name: expected a string", where));
  }
  json::value& arguments = function->get_object()["arguments"];
  if (arguments.is_null() || (arguments.is_string() && arguments.get_string().empty())) {
    arguments = json::object();
  } else if (arguments.is_string()) {
    auto parsed = parse_json(std::string(arguments.get_string()), "arguments");
    if (!parsed.ok() || !parsed->is_object()) {
      return Status::invalid_argument(
          fmt::format("{}.function.arguments: expected the text of a JSON object", where));
    }
    arguments = *std::move(parsed);
  } else if (!arguments.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}.function.arguments: expected the text of a JSON object", where));
  }
  if (takes_arguments_as_text(source)) arguments = json::string(json::serialize(arguments));
  return {};
}

// Reasoning of the past has several names, and each template one of them: it gets its own.
void name_reasoning(json::object& message, std::string_view source) {
  const json::value* found = nullptr;
  for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
    const json::value* value = message.if_contains(name);
    if (found == nullptr && value != nullptr && value->is_string()) found = value;
  }
  if (found == nullptr) return;
  const json::value reasoning = *found;
  for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
    const bool known =
        source.find(name == "thinking" ? "message.thinking" : name) != std::string_view::npos;
    if (known && !message.contains(name)) message[name] = reasoning;
  }
}

// The calls that an answer of the past made, as the template shows them.
Status read_calls(json::object& message, const std::string& where, std::string_view source) {
  if (const json::value* call = message.if_contains("function_call");
      call != nullptr && !says_nothing(*call)) {
    return Status::unimplemented(
        fmt::format("{}.function_call: this form is not supported; send tool_calls", where));
  }
  json::value* calls = message.if_contains("tool_calls");
  if (calls == nullptr) return {};
  if (says_nothing(*calls)) {
    message.erase("tool_calls");
    return {};
  }
  if (!calls->is_array()) {
    return Status::invalid_argument(fmt::format("{}.tool_calls: expected an array", where));
  }
  if (source.find("tool_calls") == std::string_view::npos) {
    return Status::unimplemented(
        fmt::format("{}.tool_calls: this model's chat template has no place for them", where));
  }
  json::array& list = calls->get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string call = fmt::format("{}.tool_calls[{}]", where, i);
    if (!list[i].is_object()) {
      return Status::invalid_argument(fmt::format("{}: expected an object", call));
    }
    QUIRE_RETURN_IF_ERROR(read_arguments(list[i].get_object(), call, source));
  }
  return {};
}

// Whether a template could mean it as a role: a template quotes its control tokens, too.
bool is_word(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// A role that the template does not know it would write as it writes any word, and the model was
// never trained on it.
Status read_role(json::object& message, const std::string& where, std::string_view source) {
  json::value* role = message.if_contains("role");
  if (role == nullptr || !role->is_string() || role->get_string().empty()) {
    return Status::invalid_argument(fmt::format("{}.role: expected a string", where));
  }
  const std::string_view name = role->get_string();
  if (name == "user" || name == "assistant" || name == "system" || source.empty() ||
      (is_word(name) && quotes(source, name))) {
    return {};
  }
  if (name == "developer") {  // OpenAI's newer word
    *role = "system";
    return {};
  }
  return Status::invalid_argument(
      fmt::format("{}.role: this model's chat template gives the role \"{}\" no meaning", where,
                  clipped(name, 40)),
      "expected user, assistant, system or developer");
}

Result<json::value> read_message(const json::value& value, std::size_t index,
                                 std::string_view source) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  json::object message = value.get_object();
  const JsonReader reader(message, where, StatusCode::kInvalidArgument);
  QUIRE_RETURN_IF_ERROR(read_role(message, where, source));
  QUIRE_RETURN_IF_ERROR(read_calls(message, where, source));
  name_reasoning(message, source);
  const json::value* content = reader.find("content");
  if (content == nullptr) {
    if (message.at("role").as_string() != "assistant") {
      return Status::invalid_argument(fmt::format("{}.content: it is missing", where));
    }
    const bool absent = message.contains("tool_calls") && asks_for_no_content(source);
    message["content"] = absent ? json::value() : json::value("");
  } else if (content->is_array()) {
    QUIRE_ASSIGN_OR_RETURN(json::value joined, join_parts(content->get_array(), index));
    message["content"] = std::move(joined);
  } else if (!content->is_string()) {
    return Status::invalid_argument(
        fmt::format("{}.content: expected a string or a list of parts, found {}", where,
                    json_kind_name(*content)));
  }
  return json::value(std::move(message));
}

Result<json::array> read_chat_messages(const JsonReader& fields, std::string_view source) {
  const json::value* value = fields.find("messages");
  if (value == nullptr || !value->is_array()) return fields.type_error("messages", "an array");
  const json::array& list = value->get_array();
  if (list.empty() || list.size() > kMaxMessages) {
    return Status::invalid_argument(
        fmt::format("messages: expected 1 to {} messages, found {}", kMaxMessages, list.size()));
  }
  json::array messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(json::value message, read_message(list[i], i, source));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

Status prepare_message(json::object& message, const std::string& where,
                       std::string_view chat_template) {
  QUIRE_RETURN_IF_ERROR(read_role(message, where, chat_template));
  QUIRE_RETURN_IF_ERROR(read_calls(message, where, chat_template));
  name_reasoning(message, chat_template);
  const bool empty = says_nothing(message["content"]);
  if (empty && message.contains("tool_calls") && asks_for_no_content(chat_template)) {
    message["content"] = nullptr;
  }
  return {};
}

Result<Conversation> read_conversation(const JsonReader& fields, const Engine& engine) {
  Conversation conversation;
  QUIRE_ASSIGN_OR_RETURN(conversation.messages, read_chat_messages(fields, engine.chat_template()));
  if (const json::value* documents = fields.find("documents")) {
    if (!documents->is_array()) return fields.type_error("documents", "an array");
    conversation.documents = *documents;
  }
  if (const json::value* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return fields.type_error("chat_template_kwargs", "an object");
    QUIRE_RETURN_IF_ERROR(check_chat_template_kwargs(kwargs->get_object()));
    conversation.chat_template_kwargs = kwargs->get_object();
  }
  QUIRE_ASSIGN_OR_RETURN(const auto continues, fields.find_bool("continue_final_message"));
  QUIRE_ASSIGN_OR_RETURN(const auto prompts, fields.find_bool("add_generation_prompt"));
  conversation.continue_final_message = continues.value_or(false);
  conversation.add_generation_prompt = prompts.value_or(!conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    return Status::invalid_argument(
        "continue_final_message: it excludes add_generation_prompt",
        "a prompt ends either within the last message or where a new one begins");
  }
  return conversation;
}

}  // namespace quire
