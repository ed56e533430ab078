// A dialect's marks in grammars: text, or the special tokens that a vocabulary has for it.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_vocabulary.h"

namespace quire {

// Borrows both.
class DialectMarks {
 public:
  DialectMarks(const GrammarVocabulary& vocabulary, GrammarBuilder& builder)
      : vocabulary_(vocabulary), builder_(builder) {}

  // `text`: what special tokens it has are these tokens, since no text can stand for them, and the
  // rest is text. One that ends a sequence is left out: the end of the answer says the same.
  ExprId mark(std::string_view text);
  // Whether the vocabulary has all of `text` as one special token.
  bool is_token(std::string_view text) const;
  GrammarBuilder& builder() { return builder_; }

 private:
  const GrammarVocabulary& vocabulary_;
  GrammarBuilder& builder_;
};

// Any text in which none of `marks` stands (empty ones do not count), whether a token could spell
// it or not: who reads an answer sees its text.
Result<Dfa> text_without(std::span<const std::string_view> marks, GrammarBudget& budget);

}  // namespace quire
