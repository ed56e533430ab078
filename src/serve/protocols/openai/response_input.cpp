#include "serve/protocols/openai/response_input.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::size_t kMaxItems = 4096;
constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};

// The text of one part of a message.
Result<std::string> read_part(const json::value& value, const std::string& where) {
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  const JsonReader part(value.get_object(), where, StatusCode::kInvalidArgument);
  const json::value* type = part.find("type");
  if (type == nullptr || !type->is_string()) {
    return Status::invalid_argument(fmt::format("{}.type: expected a string", where));
  }
  const std::string_view name = type->get_string();
  if (name != "input_text" && name != "output_text" && name != "text" && name != "reasoning_text") {
    return Status::unimplemented(fmt::format(
        "{}.type: \"{}\" is not supported; this model reads text", where, name.substr(0, 40)));
  }
  const json::value* text = part.find("text");
  if (text == nullptr || !text->is_string()) {
    return Status::invalid_argument(fmt::format("{}.text: expected a string", where));
  }
  return std::string(text->get_string());
}

Result<std::vector<std::string>> read_content(const json::value* content, const std::string& where,
                                              std::string_view field = "content") {
  std::vector<std::string> texts;
  if (content != nullptr && content->is_string()) {
    texts.emplace_back(content->get_string());
    return texts;
  }
  if (content == nullptr || !content->is_array()) {
    return Status::invalid_argument(
        fmt::format("{}.{}: expected a string or a list of parts", where, field));
  }
  const json::array& parts = content->get_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(std::string text,
                           read_part(parts[i], fmt::format("{}.{}[{}]", where, field, i)));
    texts.push_back(std::move(text));
  }
  return texts;
}

void add_message(std::string_view role, const std::vector<std::string>& texts,
                 ResponseInput& input) {
  const bool output = role == "assistant";
  json::array parts;
  std::string whole;
  for (const std::string& text : texts) {
    parts.push_back(output ? output_text_part(text)
                           : json::object{{"type", "input_text"}, {"text", text}});
    whole += text;
  }
  input.items.push_back(json::object{{"id", new_id("msg_")},
                                     {"type", "message"},
                                     {"role", role},
                                     {"status", "completed"},
                                     {"content", std::move(parts)}});
  // What an answer of this server was made of comes back as items of their own.
  if (output && !input.messages.empty()) {
    json::object& last = input.messages.back().as_object();
    if (last.at("role") == "assistant" && last.at("content") == "" &&
        !last.contains("tool_calls")) {
      last["content"] = whole;
      return;
    }
  }
  input.messages.push_back(
      json::object{{"role", role == "developer" ? "system" : role}, {"content", whole}});
}

// The assistant's message that calls and reasoning belong to: the last one, or a new one. A text
// closes it, and so does a result.
json::object& open_answer(ResponseInput& input) {
  if (input.messages.empty() || input.messages.back().at("role") != "assistant") {
    input.messages.push_back(json::object{{"role", "assistant"}, {"content", ""}});
  }
  return input.messages.back().as_object();
}

Status read_call(const JsonReader& item, const std::string& where, ResponseInput& input) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, item.find_string("name"));
  QUIRE_ASSIGN_OR_RETURN(const auto arguments, item.find_string("arguments"));
  QUIRE_ASSIGN_OR_RETURN(const auto call_id, item.find_string("call_id"));
  if (!name || !arguments || !call_id) {
    return Status::invalid_argument(
        fmt::format("{}: expected a call with call_id, name and arguments", where));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto id, item.find_string("id"));
  input.items.push_back(json::object{{"id", id.value_or(new_id("fc_"))},
                                     {"type", "function_call"},
                                     {"call_id", *call_id},
                                     {"name", *name},
                                     {"arguments", *arguments},
                                     {"status", "completed"}});
  json::value& calls = open_answer(input)["tool_calls"];
  if (!calls.is_array()) calls = json::array();
  calls.as_array().push_back({{"id", *call_id},
                              {"type", "function"},
                              {"function", {{"name", *name}, {"arguments", *arguments}}}});
  return {};
}

Status read_result(const JsonReader& item, const std::string& where, ResponseInput& input) {
  QUIRE_ASSIGN_OR_RETURN(const auto call_id, item.find_string("call_id"));
  if (!call_id) return Status::invalid_argument(fmt::format("{}.call_id: it is missing", where));
  const json::value* output = item.find("output");
  std::string whole;
  QUIRE_ASSIGN_OR_RETURN(const auto texts, read_content(output, where, "output"));
  for (const std::string& text : texts) whole += text;
  QUIRE_ASSIGN_OR_RETURN(const auto id, item.find_string("id"));
  input.items.push_back(json::object{{"id", id.value_or(new_id("fco_"))},
                                     {"type", "function_call_output"},
                                     {"call_id", *call_id},
                                     {"output", whole},
                                     {"status", "completed"}});
  input.messages.push_back(
      json::object{{"role", "tool"}, {"tool_call_id", *call_id}, {"content", whole}});
  return {};
}

// As this server wrote it: what is in its content.
Status read_reasoning_item(const JsonReader& item, const std::string& where, ResponseInput& input) {
  std::string whole;
  if (const json::value* content = item.find("content")) {
    QUIRE_ASSIGN_OR_RETURN(const auto texts, read_content(content, where, "content"));
    for (const std::string& text : texts) whole += text;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto id, item.find_string("id"));
  input.items.push_back(json::object{
      {"id", id.value_or(new_id("rs_"))},
      {"type", "reasoning"},
      {"summary", json::array()},
      {"content", json::array{json::object{{"type", "reasoning_text"}, {"text", whole}}}}});
  input.messages.push_back(
      json::object{{"role", "assistant"}, {"content", ""}, {"reasoning_content", whole}});
  return {};
}

Status read_item(const json::value& value, const std::string& where, ResponseInput& input) {
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  const JsonReader item(value.get_object(), where, StatusCode::kInvalidArgument);
  if (const json::value* type = item.find("type")) {
    if (!type->is_string()) {
      return Status::invalid_argument(fmt::format("{}.type: expected a string", where));
    }
    if (type->get_string() == "function_call") return read_call(item, where, input);
    if (type->get_string() == "function_call_output") return read_result(item, where, input);
    if (type->get_string() == "reasoning") return read_reasoning_item(item, where, input);
    if (type->get_string() != "message") {
      return Status::unimplemented(fmt::format(
          "{}.type: \"{}\" is not supported; messages, calls of functions, their outputs and "
          "reasoning are",
          where, std::string_view(type->get_string()).substr(0, 40)));
    }
  }
  const json::value* role = item.find("role");
  if (role == nullptr || !role->is_string() ||
      std::ranges::find(kRoles, std::string_view(role->get_string())) == kRoles.end()) {
    return Status::invalid_argument(
        fmt::format("{}.role: expected user, assistant, system or developer", where));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto texts, read_content(item.find("content"), where));
  add_message(role->get_string(), texts, input);
  return {};
}

}  // namespace

Result<ResponseInput> read_response_input(const JsonReader& fields) {
  const json::value* value = fields.find("input");
  ResponseInput input;
  if (value != nullptr && value->is_string()) {
    add_message("user", {std::string(value->get_string())}, input);
    return input;
  }
  if (value == nullptr || !value->is_array()) {
    return Status::invalid_argument("input: expected a string or a list of items");
  }
  const json::array& list = value->get_array();
  if (list.empty() || list.size() > kMaxItems) {
    return Status::invalid_argument(
        fmt::format("input: expected 1 to {} items, found {}", kMaxItems, list.size()));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(read_item(list[i], fmt::format("input[{}]", i), input));
  }
  return input;
}

json::object output_text_part(std::string_view text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", json::array()},
          {"logprobs", json::array()}};
}

std::string new_id(std::string_view prefix) {
  std::random_device device;
  std::string id(prefix);
  for (int i = 0; i < 6; ++i) id += fmt::format("{:08x}", static_cast<std::uint32_t>(device()));
  return id;
}

}  // namespace quire
