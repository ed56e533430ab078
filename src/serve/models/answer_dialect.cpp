#include "serve/models/answer_dialect.h"

#include <algorithm>

namespace quire {
namespace {

// More than the marks at the end of any prompt need.
constexpr std::size_t kTailTokens = 64;

std::vector<TokenId> special_tokens_of(const OutputDialect& dialect, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  if (dialect == OutputDialect()) return ids;
  for (TokenId id = 0; tokenizer.contains(id); ++id) {
    if (!tokenizer.is_special(id)) continue;
    if (is_part_of_mark(dialect, tokenizer.token_text(id))) ids.push_back(id);
  }
  return ids;
}

}  // namespace

AnswerDialect::AnswerDialect(const DialectChoice& chosen, const Engine& engine) {
  dialect_ = choose_dialect(engine.chat_template());
  if (chosen.tools) dialect_.tools = *chosen.tools;
  if (chosen.reasoning) dialect_.reasoning = *chosen.reasoning;
  shown_ = special_tokens_of(dialect_, engine.tokenizer());
  shown_for_reasoning_ = special_tokens_of({nullptr, dialect_.reasoning}, engine.tokenizer());
}

ReasoningStart AnswerDialect::start(const Tokenizer& tokenizer,
                                    std::span<const TokenId> prompt) const {
  if (dialect_.reasoning == nullptr) return ReasoningStart::kUnsaid;
  const auto tail = prompt.last(std::min(prompt.size(), kTailTokens));
  return reasoning_start(*dialect_.reasoning,
                         tokenizer.decode(tail, /*skip_special_tokens=*/false));
}

}  // namespace quire
