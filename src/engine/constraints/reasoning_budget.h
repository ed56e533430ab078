// A budget of reasoning (`thinking_token_budget`): when so many tokens of it have come, its end
// mark is what comes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/structured_outputs.h"
#include "text/tokenizer.h"

namespace quire {

struct ReasoningBudget {
  std::string begin;  // marks
  std::string end;
  bool open = false;     // the answer begins within reasoning
  bool repeats = false;  // it may begin again behind its end (harmony)
  std::int64_t tokens = 0;
  std::vector<TokenId> end_tokens;  // the tokenizer's own for `end`, at least one
};

// Of a constraint that is an answer's form with a budget; null for others.
// kInvalidArgument where the tokenizer has no tokens for the end mark.
Result<std::shared_ptr<const ReasoningBudget>> reasoning_budget(
    const StructuredOutputsParams& constraint, const Tokenizer& tokenizer);

// What the grammar of such a constraint depends on: all of its text but the budget.
std::string text_without_budget(const std::string& structural_tag);

// Where one output is with its budget, a function of its tokens alone. Small; a copy follows
// guesses.
class ReasoningWatch {
 public:
  // Null: there is no budget, and take() and forced() do nothing.
  explicit ReasoningWatch(std::shared_ptr<const ReasoningBudget> budget);

  void take(TokenId token, const Tokenizer& tokenizer);
  // The token that has to come where the budget is used up.
  std::optional<TokenId> forced() const;

 private:
  enum class Place : std::uint8_t { kBefore, kInside, kBehind };

  std::shared_ptr<const ReasoningBudget> budget_;
  Place place_ = Place::kBehind;
  std::int64_t count_ = 0;      // tokens of reasoning
  std::size_t num_forced_ = 0;  // of end_tokens
  std::string tail_;            // text that may be the beginning of a mark
};

}  // namespace quire
