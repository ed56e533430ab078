#include "engine/constraints/constraint_grammar.h"

#include "core/structured_outputs_json.h"
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
  QUIRE_ASSIGN_OR_RETURN(const StructuredOutputsParams params,
                         read_structured_outputs(form->content, "content"));
  QUIRE_ASSIGN_OR_RETURN(const Grammar content, content_grammar(params, vocabulary, budget));
  return answer_grammar(*form, &content, *vocabulary, budget);
}

}  // namespace quire
