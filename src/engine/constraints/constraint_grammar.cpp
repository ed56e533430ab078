#include "engine/constraints/constraint_grammar.h"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "text/dialects/answer_form.h"
#include "text/dialects/structural_tag.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/json_schema.h"

namespace quire {
namespace {

JsonSchemaOptions json_options(const StructuredOutputsParams& constraint) {
  JsonSchemaOptions options;
  options.whitespace_pattern = constraint.whitespace_pattern;
  options.disable_any_whitespace = constraint.disable_any_whitespace;
  options.disable_additional_properties = constraint.disable_additional_properties;
  return options;
}

Result<Grammar> content_grammar(const StructuredOutputsParams& constraint,
                                const GrammarVocabulary* vocabulary, GrammarBudget& budget) {
  if (constraint.json) {
    return json_schema_grammar(*constraint.json, json_options(constraint), budget);
  }
  if (constraint.json_object) return json_object_grammar(json_options(constraint), budget);
  if (constraint.regex) return regex_grammar(*constraint.regex, RegexOptions(), budget);
  if (!constraint.choice.empty()) return choice_grammar(constraint.choice, budget);
  if (constraint.grammar) return grammar_from_text(*constraint.grammar, budget);
  return structural_tag_grammar(*constraint.structural_tag, *vocabulary, budget);
}

Status expected(std::string_view key) {
  return Status::invalid_argument(fmt::format("the content of an answer: {} is no such", key));
}

// As StructuredOutputsParams are shown: what stands there by its name.
Result<StructuredOutputsParams> read_content(const json::value& content) {
  const json::object* object = content.if_object();
  if (object == nullptr) return expected("it");
  StructuredOutputsParams params;
  for (const auto& item : *object) {
    const std::string_view key = item.key();
    const json::value& value = item.value();
    const auto take = [&](std::string_view name, std::optional<std::string>& text) {
      if (key == name && value.is_string()) text = std::string(value.get_string());
    };
    const auto flag = [&](std::string_view name, bool& set) {
      if (key == name) set = value.is_bool() && value.get_bool();
    };
    take("json", params.json);
    take("regex", params.regex);
    take("grammar", params.grammar);
    take("structural_tag", params.structural_tag);
    take("whitespace_pattern", params.whitespace_pattern);
    flag("json_object", params.json_object);
    flag("disable_any_whitespace", params.disable_any_whitespace);
    flag("disable_additional_properties", params.disable_additional_properties);
    if (key != "choice") continue;
    if (!value.is_array()) return expected(key);
    for (const json::value& each : value.get_array()) {
      if (!each.is_string()) return expected(key);
      params.choice.emplace_back(each.get_string());
    }
  }
  params.field = "content";
  QUIRE_RETURN_IF_ERROR(params.validate());
  return params;
}

}  // namespace

Result<Grammar> constraint_grammar(const StructuredOutputsParams& constraint, GrammarBudget& budget,
                                   const GrammarVocabulary* vocabulary) {
  if (!constraint.structural_tag) return content_grammar(constraint, vocabulary, budget);
  if (vocabulary == nullptr) {
    return Status::internal("a structural tag's grammar is asked for without a vocabulary");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto form, AnswerForm::from_text(*constraint.structural_tag));
  if (!form) return content_grammar(constraint, vocabulary, budget);
  if (form->content.is_null()) return answer_grammar(*form, nullptr, *vocabulary, budget);
  QUIRE_ASSIGN_OR_RETURN(const StructuredOutputsParams params, read_content(form->content));
  QUIRE_ASSIGN_OR_RETURN(const Grammar content, content_grammar(params, vocabulary, budget));
  return answer_grammar(*form, &content, *vocabulary, budget);
}

}  // namespace quire
