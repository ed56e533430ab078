// How one model writes calls of tools and reasoning, and so how its answers are read.
#pragma once

#include <span>
#include <vector>

#include "engine/api.h"
#include "text/dialects/dialect.h"
#include "text/dialects/output_parser.h"

namespace quire {

class AnswerDialect {
 public:
  // As chosen, or as the model's chat template shows them.
  AnswerDialect(const DialectChoice& chosen, const Engine& engine);

  const OutputDialect& dialect() const { return dialect_; }
  // The special tokens that its marks are made of: those of calls as well, or of reasoning alone.
  const std::vector<TokenId>& shown_special_tokens(bool calls) const {
    return calls ? shown_ : shown_for_reasoning_;
  }
  // Where the answer to a prompt begins.
  ReasoningStart start(const Tokenizer& tokenizer, std::span<const TokenId> prompt) const;

 private:
  OutputDialect dialect_;
  std::vector<TokenId> shown_;
  std::vector<TokenId> shown_for_reasoning_;
};

}  // namespace quire
