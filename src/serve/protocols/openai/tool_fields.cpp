#include "serve/protocols/openai/tool_fields.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/http/field_text.h"

namespace quire {
namespace {

constexpr std::size_t kMaxTools = 1024;
constexpr std::size_t kMaxToolName = 128;
constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  });
}

// What describes a function, checked, as templates take it.
Result<json::value> read_function(const json::object& function, const std::string& where) {
  const JsonReader reader(function, where, StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const auto name, reader.find_string("name"));
  if (!name || !is_tool_name(*name)) {
    return Status::invalid_argument(fmt::format(
        "{}.name: expected 1 to {} letters, digits, and any of _ - . : /", where, kMaxToolName));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto description, reader.find_string("description"));
  QUIRE_ASSIGN_OR_RETURN(const auto strict, reader.find_bool("strict"));
  if (strict.value_or(false)) {
    return Status::unimplemented(
        fmt::format("{}.strict: arguments are not held to a schema yet", where),
        "leave it out, or set it to false");
  }
  const json::value* parameters = reader.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return Status::invalid_argument(
        fmt::format("{}.parameters: expected a JSON Schema, an object", where));
  }
  json::object shown = {{"name", *name}};
  // Templates read both without asking whether they are there.
  shown["description"] = description.value_or("");
  shown["parameters"] = parameters != nullptr
                            ? *parameters
                            : json::value({{"type", "object"}, {"properties", json::object()}});
  for (const auto& field : function) {
    const std::string_view key = field.key();
    if (key != "strict" && key != "type" && !shown.contains(key)) shown[key] = field.value();
  }
  return json::value({{"type", "function"}, {"function", std::move(shown)}});
}

Result<json::value> read_tool(const json::value& value, ToolForm form, const std::string& where) {
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  const json::object& tool = value.get_object();
  const JsonReader reader(tool, where, StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const auto type, reader.find_string("type"));
  if (!type || *type != "function") {
    return Status::unimplemented(fmt::format("{}.type: \"{}\" is not supported; expected function",
                                             where, clipped(type.value_or(""), 40)));
  }
  if (form == ToolForm::kResponse) return read_function(tool, where);
  const json::value* function = reader.find("function");
  if (function == nullptr || !function->is_object()) {
    return Status::invalid_argument(fmt::format("{}.function: expected an object", where));
  }
  return read_function(function->get_object(), where + ".function");
}

// Whether calls are allowed.
Result<bool> read_choice(const JsonReader& fields) {
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return true;
  if (choice->is_string() && choice->get_string() == "none") return false;
  if (choice->is_string() && choice->get_string() == "auto") return true;
  return Status::unimplemented("tool_choice: only \"none\" and \"auto\" are supported");
}

Status check_model(const ServedModel& served) {
  if (served.engine().chat_template().find("tools") == std::string_view::npos) {
    return Status::unimplemented(
        "tools: not supported by this model, whose chat template has no place for them",
        "serve it with --chat-template FILE and one that has");
  }
  if (served.dialect().dialect().tools == nullptr) {
    return Status::unimplemented(
        "tools: not supported by this model, whose chat template does not show how it calls them",
        "serve it with --tool-call-parser NAME");
  }
  return {};
}

}  // namespace

Result<ToolFields> read_tools(const JsonReader& fields, ToolForm form, const ServedModel& served) {
  ToolFields result;
  QUIRE_ASSIGN_OR_RETURN(const bool allowed, read_choice(fields));
  QUIRE_ASSIGN_OR_RETURN(const auto parallel, fields.find_bool("parallel_tool_calls"));
  result.parallel_calls = parallel.value_or(true);
  const json::value* value = fields.find("tools");
  if (value == nullptr) return result;
  if (!value->is_array()) return fields.type_error("tools", "an array");
  const json::array& list = value->get_array();
  if (list.empty() || !allowed) return result;
  if (list.size() > kMaxTools) {
    return Status::invalid_argument(
        fmt::format("tools: at most {} are allowed, found {}", kMaxTools, list.size()));
  }
  QUIRE_RETURN_IF_ERROR(check_model(served));
  std::set<std::string, std::less<>> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    QUIRE_ASSIGN_OR_RETURN(json::value tool, read_tool(list[i], form, where));
    const std::string name(tool.at("function").at("name").as_string());
    if (!names.insert(name).second) {
      return Status::invalid_argument(
          fmt::format("{}: there are two tools of the name \"{}\"", where, name));
    }
    result.tools.push_back(std::move(tool));
  }
  return result;
}

AnswerParsing answer_parsing(const ToolFields& tools, const ServedModel& served,
                             std::span<const TokenId> prompt) {
  AnswerParsing parsing;
  parsing.dialect = served.dialect().dialect();
  if (!tools.tools.empty()) parsing.tools = std::make_shared<const ToolSet>(tools.tools);
  parsing.start = served.dialect().start(served.engine().tokenizer(), prompt);
  parsing.parallel_calls = tools.parallel_calls;
  return parsing;
}

Status read_reasoning_effort(const std::optional<std::string>& effort, std::string_view field,
                             std::string_view chat_template, json::object& kwargs) {
  if (!effort) return {};
  if (std::ranges::find(kEfforts, *effort) == kEfforts.end()) {
    return Status::invalid_argument(
        fmt::format("{}: \"{}\" is no effort", field, clipped(*effort, 40)),
        fmt::format("expected one of {}", fmt::join(kEfforts, ", ")));
  }
  if (chat_template.find("reasoning_effort") != std::string_view::npos &&
      !kwargs.contains("reasoning_effort")) {
    kwargs["reasoning_effort"] = *effort;
  }
  return {};
}

}  // namespace quire
