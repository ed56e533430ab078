#include "serve/protocols/openai/tool_fields.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/http/field_text.h"
#include "text/dialects/plain_reasoning.h"

namespace quire {
namespace {

constexpr std::size_t kMaxToolName = 128;
constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};

// What describes a function, checked, as templates expect it.
Result<json::value> read_function(const json::object& function, const std::string& where) {
  const JsonReader reader(function, where, StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const auto name, reader.find_string("name"));
  if (!name || !is_tool_name(*name)) {
    return Status::invalid_argument(fmt::format(
        "{}.name: expected 1 to {} letters, digits, and any of _ - . : /", where, kMaxToolName));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto description, reader.find_string("description"));
  QUIRE_RETURN_IF_ERROR(reader.find_bool("strict").status());
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

// What `tool_choice` says.
struct ToolChoice {
  bool allowed = true;
  bool required = false;
  std::optional<std::vector<std::string>> names;  // that may be called; none: all
  bool single = false;  // one call and no more, as OpenAI has it of a name
};

Status wrong_choice() {
  return Status::invalid_argument(
      "tool_choice: expected \"none\", \"auto\", \"required\", a function by its name, or "
      "allowed_tools");
}

// {"type": "function"} with a name, of a chat completion in an object of its own.
Result<std::string> named_function(const json::value& value, ToolForm form) {
  const json::object* function = value.if_object();
  const json::value* type = function != nullptr ? function->if_contains("type") : nullptr;
  if (type == nullptr || *type != "function") return wrong_choice();
  if (form == ToolForm::kChat) {
    const json::value* inner = function->if_contains("function");
    function = inner != nullptr ? inner->if_object() : nullptr;
  }
  const json::value* name = function != nullptr ? function->if_contains("name") : nullptr;
  if (name == nullptr || !name->is_string()) return wrong_choice();
  return std::string(name->get_string());
}

Result<ToolChoice> read_choice(const JsonReader& fields, ToolForm form) {
  ToolChoice result;
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return result;
  if (*choice == "none") {
    result.allowed = false;
    return result;
  }
  result.required = true;
  if (*choice == "required") return result;
  const json::object* object = choice->if_object();
  if (object == nullptr) return wrong_choice();
  result.names.emplace();
  const json::value* type = object->if_contains("type");
  if (type == nullptr || *type != "allowed_tools") {
    QUIRE_ASSIGN_OR_RETURN(std::string name, named_function(*choice, form));
    result.names->push_back(std::move(name));
    result.single = true;
    return result;
  }
  if (form == ToolForm::kChat) {
    const json::value* inner = object->if_contains("allowed_tools");
    object = inner != nullptr ? inner->if_object() : nullptr;
    if (object == nullptr) return wrong_choice();
  }
  const json::value* mode = object->if_contains("mode");
  const json::value* tools = object->if_contains("tools");
  if (mode == nullptr || (*mode != "auto" && *mode != "required") || tools == nullptr ||
      !tools->is_array() || tools->get_array().empty()) {
    return wrong_choice();
  }
  result.required = *mode == "required";
  for (const json::value& tool : tools->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(std::string name, named_function(tool, form));
    result.names->push_back(std::move(name));
  }
  return result;
}

// The functions among `tools`, whose `strict` is as `given` has it, that may be called.
Result<std::vector<AnswerForm::Function>> callable_of(const json::array& tools,
                                                      const json::array& given, ToolForm form,
                                                      const ToolChoice& choice) {
  std::vector<AnswerForm::Function> functions;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const json::object& function = tools[i].at("function").as_object();
    const std::string name(function.at("name").as_string());
    if (choice.names && std::ranges::find(*choice.names, name) == choice.names->end()) continue;
    const json::object& wire =
        form == ToolForm::kChat ? given[i].at("function").as_object() : given[i].as_object();
    const json::value* strict = wire.if_contains("strict");
    functions.push_back({.name = name,
                         .parameters = function.at("parameters"),
                         .strict = strict != nullptr && *strict == true});
  }
  for (const std::string& name : choice.names.value_or(std::vector<std::string>())) {
    if (std::ranges::find(functions, name, &AnswerForm::Function::name) == functions.end()) {
      return Status::invalid_argument(
          fmt::format("tool_choice: there is no tool with the name \"{}\"", clipped(name, 80)));
    }
  }
  return functions;
}

Status check_model(std::string_view chat_template, const AnswerDialect& dialect) {
  if (chat_template.find("tools") == std::string_view::npos) {
    return Status::unimplemented(
        "tools: not supported by this model, whose chat template has no place for them",
        "serve it with --chat-template FILE and one that has");
  }
  if (dialect.dialect().tools == nullptr) {
    return Status::unimplemented(
        "tools: not supported by this model, whose chat template does not show how it calls them",
        "serve it with --tool-call-parser NAME");
  }
  return {};
}

}  // namespace

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  });
}

Result<ToolFields> read_tools(const JsonReader& fields, ToolForm form, const Engine& engine,
                              const AnswerDialect& dialect) {
  ToolFields result;
  QUIRE_ASSIGN_OR_RETURN(const ToolChoice choice, read_choice(fields, form));
  QUIRE_ASSIGN_OR_RETURN(const auto parallel, fields.find_bool("parallel_tool_calls"));
  result.parallel_calls = parallel.value_or(true) && !choice.single;
  const json::value* value = fields.find("tools");
  if (value != nullptr && !value->is_array()) return fields.type_error("tools", "an array");
  if (value == nullptr || value->get_array().empty()) {
    if (!choice.required && !choice.names) return result;
    return Status::invalid_argument("tool_choice: there are no tools",
                                    "give tools, or leave tool_choice out");
  }
  const json::array& list = value->get_array();
  if (!choice.allowed) return result;
  if (list.size() > kMaxTools) {
    return Status::invalid_argument(
        fmt::format("tools: at most {} are allowed, found {}", kMaxTools, list.size()));
  }
  QUIRE_RETURN_IF_ERROR(check_model(engine.chat_template(), dialect));
  std::set<std::string, std::less<>> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    QUIRE_ASSIGN_OR_RETURN(json::value tool, read_tool(list[i], form, where));
    const std::string name(tool.at("function").at("name").as_string());
    if (!names.insert(name).second) {
      return Status::invalid_argument(
          fmt::format("{}: there are two tools with the name \"{}\"", where, name));
    }
    result.tools.push_back(std::move(tool));
  }
  QUIRE_ASSIGN_OR_RETURN(result.callable, callable_of(result.tools, list, form, choice));
  result.required = choice.required;
  return result;
}

Result<AnswerParsing> hold_answer(const ToolFields& tools,
                                  std::optional<std::int64_t> thinking_budget,
                                  const AnswerDialect& dialect, const Tokenizer& tokenizer,
                                  std::span<const TokenId> prompt, SamplingParams& params) {
  AnswerParsing parsing;
  parsing.dialect = dialect.dialect();
  if (!tools.tools.empty()) parsing.tools = std::make_shared<const ToolSet>(tools.tools);
  parsing.start = dialect.start(tokenizer, prompt);
  parsing.parallel_calls = tools.parallel_calls;
  const ReasoningDialect* const reasoning = parsing.dialect.reasoning;
  if (thinking_budget && reasoning == nullptr) {
    return Status::invalid_argument(
        "thinking_token_budget: the model is not known to reason",
        "serve it with --reasoning-parser NAME, or leave the field out");
  }
  const auto content = std::exchange(params.structured_outputs, nullptr);
  // A structural tag has its own calls.
  const bool tagged = content != nullptr && content->structural_tag.has_value();
  const bool all = tools.callable.size() == tools.tools.size();
  const bool held = tools.required || thinking_budget || content != nullptr || !all ||
                    std::ranges::any_of(tools.callable, &AnswerForm::Function::strict);
  AnswerForm form;
  form.start = parsing.start;
  form.thinking_budget = thinking_budget;
  if (parsing.start != ReasoningStart::kClosed) form.reasoning = reasoning;
  if (held && !tools.callable.empty() && (tools.required || !tagged)) {
    form.calls = {.dialect = parsing.dialect.tools,
                  .functions = tools.callable,
                  .required = tools.required,
                  .parallel = tools.parallel_calls};
  }
  if (content != nullptr && !tools.required) {
    // Reasoning ends once; what looks like marks behind it is content.
    if (parsing.dialect.reasoning != nullptr) {
      parsing.dialect.reasoning = form.reasoning == nullptr ? nullptr : kept_content(*reasoning);
    }
    if (form.reasoning == nullptr && !form.calls) {
      params.structured_outputs = content;
      return parsing;
    }
    form.content = show_structured_outputs(*content);
  }
  if (!form.calls && form.content.is_null() && !thinking_budget) return parsing;
  StructuredOutputsParams constraint;
  constraint.structural_tag = form.to_text();
  constraint.field = !form.content.is_null() ? content->field
                     : form.calls            ? "tools"
                                             : "thinking_token_budget";
  constraint.told_in_prompt = content != nullptr && content->told_in_prompt;
  QUIRE_RETURN_IF_ERROR(constraint.validate());
  params.structured_outputs =
      std::make_shared<const StructuredOutputsParams>(std::move(constraint));
  return parsing;
}

Result<std::optional<std::int64_t>> read_thinking_budget(const JsonReader& fields) {
  QUIRE_ASSIGN_OR_RETURN(const auto budget, fields.find_int("thinking_token_budget"));
  if (budget && *budget < 0) {
    return Status::invalid_argument(
        fmt::format("thinking_token_budget: {} is not an integer >= 0", *budget));
  }
  return budget;
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
