// Grammars that people write: a regular expression, a list of choices, EBNF, GBNF, Lark.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/grammar/regex.h"

namespace quire {

// Errors of all: kInvalidArgument with line and column (characters, from 1), what is there and what
// was expected; kUnimplemented naming what this reader does not support; kResourceExhausted naming
// a limit; kCancelled.

Result<Grammar> regex_grammar(std::string_view pattern, const RegexOptions& options,
                              GrammarBudget& budget);

// One of `choices`, at least one, as it is.
Result<Grammar> choice_grammar(std::span<const std::string> choices, GrammarBudget& budget);

// EBNF as XGrammar and llama.cpp (GBNF) write it, `name ::= expression`, the root rule's name being
// "root": "text" and 'text', classes [a-z] and [^a-z], ., sequences, |, ( ), * + ? {m} {m,} {m,n},
// comments from # to the end of the line and /* */, W3C's #xN within classes and A - B (of parts
// without rules), and tokens <[id]> and <|name|>. A rule goes on until the next one begins, over
// any number of lines. Refused by name: look-ahead, macros (TagDispatch), !<token>.
Result<Grammar> ebnf_grammar(std::string_view text, GrammarBudget& budget);

// Lark's grammars, `name: expression`, the root rule's name being "start": rules and terminals,
// "text", "text"i, /regex/flags, "a".."z", ( ), [ ], |, * + ? ~n ~n..m, aliases and the marks ? and
// ! (trees are not built), priorities (without effect: all readings count), %ignore (between
// terminals and around them), %import common.NAME, tokens <|name|> and <[id]>. Refused by name:
// templates, %override, %extend, other imports, %declare, %json, attributes of rules.
// A text is accepted where some way to cut it into terminals fits the rules.
Result<Grammar> lark_grammar(std::string_view text, GrammarBudget& budget);

// What vLLM's field `grammar` means: EBNF where a line has "::=" outside of comments, else Lark.
bool is_ebnf(std::string_view text);
Result<Grammar> grammar_from_text(std::string_view text, GrammarBudget& budget);

}  // namespace quire
