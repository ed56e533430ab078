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

JsonReader reader_of(const json::object& object) {
  return {object, "the form of an answer", StatusCode::kInvalidArgument};
}

Result<bool> flag_of(const JsonReader& object, std::string_view key) {
  QUIRE_ASSIGN_OR_RETURN(const auto flag, object.find_bool(key));
  return flag.value_or(false);
}

Result<AnswerForm::Calls> read_calls(const JsonReader& object) {
  AnswerForm::Calls calls;
  QUIRE_ASSIGN_OR_RETURN(const std::string name, object.get_string("dialect"));
  QUIRE_ASSIGN_OR_RETURN(calls.dialect, find_tool_dialect(name));
  QUIRE_ASSIGN_OR_RETURN(calls.required, flag_of(object, "required"));
  QUIRE_ASSIGN_OR_RETURN(calls.parallel, flag_of(object, "parallel"));
  if (calls.dialect == nullptr) return no_form("dialect of calls");
  QUIRE_ASSIGN_OR_RETURN(const json::array* functions, object.get_items("functions"));
  for (const json::value& each : *functions) {
    if (!each.is_object()) return no_form("function");
    const JsonReader function = reader_of(each.get_object());
    QUIRE_ASSIGN_OR_RETURN(const std::string its_name, function.get_string("name"));
    const json::value* parameters = function.find("parameters");
    if (parameters == nullptr) return no_form("parameters");
    QUIRE_ASSIGN_OR_RETURN(const bool strict, flag_of(function, "strict"));
    calls.functions.push_back({its_name, *parameters, strict});
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
  const JsonReader object = reader_of(*given);
  AnswerForm form;
  if (const json::value* content = object.find("content")) form.content = *content;
  if (object.contains("reasoning")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string name, object.get_string("reasoning"));
    QUIRE_ASSIGN_OR_RETURN(form.reasoning, find_reasoning_dialect(name));
    QUIRE_ASSIGN_OR_RETURN(const std::string start, object.get_string("start"));
    for (std::size_t i = 0; i < kStartNames.size(); ++i) {
      if (start == kStartNames[i]) form.start = static_cast<ReasoningStart>(i);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(form.thinking_budget, object.find_int("thinking_budget"));
  if (object.contains("calls")) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader calls, object.get_object("calls"));
    QUIRE_ASSIGN_OR_RETURN(form.calls, read_calls(calls));
  }
  return std::optional(std::move(form));
}

}  // namespace quire
