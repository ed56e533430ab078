#include "text/dialects/answer_form.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::string_view kType = "answer";
constexpr int kMaxFormDepth = 512;
constexpr std::array<std::string_view, 3> kStartNames = {"unsaid", "open", "closed"};

Status no_form(std::string_view what) {
  return Status::invalid_argument(fmt::format("the form of an answer has no {}", what));
}

Result<std::string_view> text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return no_form(key);
  return std::string_view(value->get_string());
}

bool flag_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

Result<AnswerForm::Calls> read_calls(const json::object& object) {
  AnswerForm::Calls calls;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view name, text_at(object, "dialect"));
  QUIRE_ASSIGN_OR_RETURN(calls.dialect, find_tool_dialect(name));
  calls.required = flag_at(object, "required");
  calls.parallel = flag_at(object, "parallel");
  const json::value* functions = object.if_contains("functions");
  if (calls.dialect == nullptr || functions == nullptr || !functions->is_array()) {
    return no_form("functions of a dialect");
  }
  for (const json::value& each : functions->get_array()) {
    if (!each.is_object()) return no_form("function");
    const json::object& function = each.get_object();
    QUIRE_ASSIGN_OR_RETURN(const std::string_view its_name, text_at(function, "name"));
    const json::value* parameters = function.if_contains("parameters");
    if (parameters == nullptr) return no_form("parameters");
    calls.functions.push_back({std::string(its_name), *parameters, flag_at(function, "strict")});
  }
  return calls;
}

}  // namespace

std::string AnswerForm::to_text() const {
  json::object text = {{"type", kType}};
  if (reasoning != nullptr) {
    text["reasoning"] = std::string_view(reasoning->name);
    text["start"] = kStartNames[static_cast<std::size_t>(start)];
  }
  if (!content.is_null()) text["content"] = content;
  if (thinking_budget) text["thinking_budget"] = *thinking_budget;
  if (calls) {
    json::array functions;
    for (const Function& function : calls->functions) {
      functions.push_back(json::object{{"name", function.name},
                                       {"parameters", function.parameters},
                                       {"strict", function.strict}});
    }
    text["calls"] = {{"dialect", std::string_view(calls->dialect->name)},
                     {"required", calls->required},
                     {"parallel", calls->parallel},
                     {"functions", std::move(functions)}};
  }
  return json::serialize(text);
}

Result<std::optional<AnswerForm>> AnswerForm::from_text(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value,
                         parse_json(text, "structural tag", kMaxFormDepth));
  const json::object* given = value.if_object();
  const json::value* type = given != nullptr ? given->if_contains("type") : nullptr;
  if (type == nullptr || !type->is_string() || type->get_string() != kType)
    return std::optional<AnswerForm>();
  const json::object& object = *given;
  AnswerForm form;
  if (const json::value* content = object.if_contains("content")) form.content = *content;
  if (object.contains("reasoning")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view name, text_at(object, "reasoning"));
    QUIRE_ASSIGN_OR_RETURN(form.reasoning, find_reasoning_dialect(name));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view start, text_at(object, "start"));
    for (std::size_t i = 0; i < kStartNames.size(); ++i) {
      if (start == kStartNames[i]) form.start = static_cast<ReasoningStart>(i);
    }
  }
  const json::value* budget = object.if_contains("thinking_budget");
  if (budget != nullptr && budget->is_int64()) form.thinking_budget = budget->get_int64();
  if (const json::value* calls = object.if_contains("calls")) {
    if (!calls->is_object()) return no_form("calls");
    QUIRE_ASSIGN_OR_RETURN(form.calls, read_calls(calls->get_object()));
  }
  return std::optional(std::move(form));
}

}  // namespace quire
