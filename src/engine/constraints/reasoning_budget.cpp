#include "engine/constraints/reasoning_budget.h"

#include <utility>

#include "text/dialects/answer_form.h"

namespace quire {
namespace {

// Of messages that are no reasoning, to find its mark in.
constexpr std::size_t kMaxTailBytes = 256;
constexpr std::string_view kBudgetField = "thinking_token_budget";

// Most answers' forms have none: they are not read for it.
bool may_have_budget(std::string_view structural_tag) {
  return structural_tag.find("\"thinking_budget\"") != std::string_view::npos;
}

}  // namespace

Result<std::shared_ptr<const ReasoningBudget>> reasoning_budget(
    const StructuredOutputsParams& constraint, const Tokenizer& tokenizer) {
  std::shared_ptr<const ReasoningBudget> none;
  if (!constraint.structural_tag || !may_have_budget(*constraint.structural_tag)) return none;
  QUIRE_ASSIGN_OR_RETURN(const auto form, AnswerForm::from_text(*constraint.structural_tag));
  if (!form || !form->thinking_budget || form->reasoning == nullptr) return none;
  const ReasoningDialect& dialect = *form->reasoning;
  auto budget = std::make_shared<ReasoningBudget>();
  budget->begin = dialect.channels ? "<|channel|>analysis<|message|>" : dialect.begin;
  budget->end = dialect.channels ? "<|end|>" : dialect.end;
  budget->repeats = dialect.channels;
  budget->open = form->start == ReasoningStart::kOpen ||
                 (dialect.from_start && form->start == ReasoningStart::kUnsaid);
  budget->tokens = *form->thinking_budget;
  QUIRE_ASSIGN_OR_RETURN(
      budget->end_tokens,
      tokenizer.encode(budget->end, {.add_special_tokens = false, .parse_special = true}));
  if (budget->end_tokens.empty()) {
    return Status::invalid_argument(std::string(kBudgetField) +
                                    ": the model has no tokens for the end of reasoning");
  }
  return std::shared_ptr<const ReasoningBudget>(std::move(budget));
}

std::string text_without_budget(const std::string& structural_tag) {
  if (!may_have_budget(structural_tag)) return structural_tag;
  auto form = AnswerForm::from_text(structural_tag);
  if (!form.ok() || !*form) return structural_tag;
  (*form)->thinking_budget.reset();
  return (*form)->to_text();
}

ReasoningWatch::ReasoningWatch(std::shared_ptr<const ReasoningBudget> budget)
    : budget_(std::move(budget)) {
  if (budget_ != nullptr) place_ = budget_->open ? Place::kInside : Place::kBefore;
}

std::optional<TokenId> ReasoningWatch::forced() const {
  if (place_ != Place::kInside || count_ < budget_->tokens) return std::nullopt;
  return budget_->end_tokens[num_forced_ % budget_->end_tokens.size()];
}

void ReasoningWatch::take(TokenId token, const Tokenizer& tokenizer) {
  if (place_ == Place::kBehind) return;
  num_forced_ = forced() == token ? num_forced_ + 1 : 0;
  tail_ += tokenizer.is_special(token) ? tokenizer.token_text(token) : tokenizer.token_bytes(token);
  if (place_ == Place::kInside) {
    ++count_;
    if (tail_.find(budget_->end) != std::string::npos) {
      place_ = budget_->repeats ? Place::kBefore : Place::kBehind;
      tail_.clear();
    } else if (tail_.size() >= budget_->end.size()) {
      tail_.erase(0, tail_.size() - budget_->end.size() + 1);
    }
    return;
  }
  const std::size_t begin = tail_.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return;
  const std::string_view text = std::string_view(tail_).substr(begin);
  if (text.find(budget_->begin) != std::string_view::npos) {
    place_ = Place::kInside;
    tail_.clear();
  } else if (!budget_->repeats && !budget_->begin.starts_with(text)) {
    place_ = Place::kBehind;  // the answer has begun without reasoning
  } else if (tail_.size() > kMaxTailBytes) {
    tail_.erase(0, tail_.size() - budget_->begin.size());
  }
}

}  // namespace quire
