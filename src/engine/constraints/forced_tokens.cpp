#include "engine/constraints/forced_tokens.h"

#include <string>
#include <string_view>

namespace quire {
namespace {

enum class Character { kWord, kSpace, kMark };

// Bytes beyond ASCII are mostly of letters.
Character kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
    return Character::kWord;
  }
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' ? Character::kSpace : Character::kMark;
}

// Where pre-tokenizers of every family cut, so that what follows changes no token before: between a
// word and a mark or a space, and between a mark and a space. Elsewhere some of them join both.
bool cuts(char before, char after) {
  const Character left = kind_of(before);
  const Character right = kind_of(after);
  if (left == Character::kWord) return right == Character::kMark || after == ' ';
  return left == Character::kMark && after == ' ';
}

// The text up to the last such place; empty where there is none.
std::string_view settled(std::string_view text) {
  for (std::size_t end = text.size(); end-- > 1;) {
    if (cuts(text[end - 1], text[end])) return text.substr(0, end);
  }
  return {};
}

}  // namespace

std::optional<TokenId> forced_token(GrammarMatcher& matcher, const Tokenizer& tokenizer) {
  const std::string text = matcher.forced_text(kMaxForcedBytes);
  const std::string_view known = settled(text);
  if (known.empty()) return std::nullopt;
  const auto tokens =
      tokenizer.encode(known, {.add_special_tokens = false, .parse_special = false});
  if (!tokens.ok() || tokens->empty()) return std::nullopt;
  const TokenId first = tokens->front();
  // Not where the tokenizer puts a space before a text.
  const std::string_view bytes = matcher.grammar().vocabulary().bytes(first);
  if (bytes.empty() || !known.starts_with(bytes) || !matcher.allows(first)) return std::nullopt;
  return first;
}

}  // namespace quire
