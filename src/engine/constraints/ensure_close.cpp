#include "engine/constraints/ensure_close.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::string_view kCloseField = "ensure_close";
// Of a text's last tokens: the one that comes now, and the one that ends the sequence.
constexpr std::int64_t kThisAndEnd = 2;

}  // namespace

Status check_closable(const std::shared_ptr<const CompiledGrammar>& grammar, std::int64_t most) {
  GrammarMatcher matcher(grammar);
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, matcher.tokens_to_end());
  if (!tokens) {
    return Status::invalid_argument(
        fmt::format("{}: the shortest text that fits has more than {} bytes, or the model's "
                    "vocabulary cannot spell it",
                    kCloseField, GrammarMatcher::kMostClosingBytes),
        "leave it out, or ask for a shorter text");
  }
  const std::int64_t needed = std::int64_t{*tokens} + 1;
  if (needed <= most) return {};
  return Status::invalid_argument(
      fmt::format("{}: the shortest text that fits and its end take {} tokens, and there is room "
                  "for {}",
                  kCloseField, needed, most),
      "raise max_tokens, or leave ensure_close out");
}

bool can_close_behind(GrammarMatcher& matcher, TokenId token, std::int64_t left) {
  if (!matcher.accept(token)) return false;
  const auto tokens = matcher.tokens_to_end();
  // The end itself leaves nothing to be closed.
  const std::int64_t after = matcher.is_finished() ? left - 1 : left - kThisAndEnd;
  matcher.rollback(1);
  return tokens.ok() && *tokens && std::int64_t{**tokens} <= after;
}

Status keep_closable(GrammarMatcher& matcher, std::int64_t left, std::span<std::uint32_t> words) {
  const std::int64_t most = left - kThisAndEnd;
  if (most >= 0) {
    constexpr std::int64_t kLargest = std::numeric_limits<std::uint32_t>::max() - 1;
    return matcher.keep_closable(static_cast<std::uint32_t>(std::min(most, kLargest)), words);
  }
  // Only the end fits.
  std::ranges::fill(words, 0);
  if (!matcher.can_end()) return {};
  for (const TokenId id : matcher.grammar().vocabulary().end_ids()) {
    const auto index = static_cast<std::size_t>(id);
    words[index / 32] |= std::uint32_t{1} << (index % 32);
  }
  return {};
}

}  // namespace quire
