// Structural tags: text that is constrained from given marks on, as XGrammar and vLLM write them
// (https://xgrammar.mlc.ai/docs/tutorials/structural_tag.html).
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"

namespace quire {

// Both forms:
//   {"structures": [{"begin": "<f>", "schema": {...}, "end": "</f>"}], "triggers": ["<f"]}
//   {"type": "structural_tag", "format": FORMAT}
// A FORMAT is one of const_string, json_schema, qwen_xml_parameter, regex, grammar, any_text,
// sequence, or, optional, star, plus, tag, triggered_tags and tags_with_separator. `any_text`
// within a tag goes on to the tag's end. Marks that the vocabulary has as special tokens are those
// tokens.
//
// kInvalidArgument with the place of what is wrong, kUnimplemented naming a type that is not there,
// and errors of the grammars and schemas within; kResourceExhausted, kCancelled.
Result<Grammar> structural_tag_grammar(std::string_view text, const GrammarVocabulary& vocabulary,
                                       GrammarBudget& budget);

}  // namespace quire
