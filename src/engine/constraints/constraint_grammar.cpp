#include "engine/constraints/constraint_grammar.h"

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

}  // namespace

Result<Grammar> constraint_grammar(const StructuredOutputsParams& constraint,
                                   GrammarBudget& budget) {
  if (constraint.json) {
    return json_schema_grammar(*constraint.json, json_options(constraint), budget);
  }
  if (constraint.json_object) return json_object_grammar(json_options(constraint), budget);
  if (constraint.regex) return regex_grammar(*constraint.regex, RegexOptions(), budget);
  if (!constraint.choice.empty()) return choice_grammar(constraint.choice, budget);
  if (constraint.grammar) return grammar_from_text(*constraint.grammar, budget);
  return Status::unimplemented("structural tags are not supported by this server",
                               "give the schema alone");
}

}  // namespace quire
