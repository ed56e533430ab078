#include "text/grammar/token_slice.h"

#include <algorithm>

namespace quire {

namespace {

constexpr std::uint32_t kSliceCounts[] = {2, 4, 8, 16, 32};
constexpr std::uint32_t kNotOfSlice = UINT32_MAX;

// Characters of `bytes`, a begun one among them; kNotOfSlice where one is not `character`.
std::uint32_t count_characters(const Dfa& character, std::string_view bytes) {
  std::uint32_t count = 0;
  std::int32_t state = character.start();
  for (const char c : bytes) {
    if (state == character.start()) ++count;
    state = character.next(state, static_cast<unsigned char>(c));
    if (state == Dfa::kDead) return kNotOfSlice;
    if (character.accepts(state)) state = character.start();
  }
  return count;
}

}  // namespace

TokenSlice::TokenSlice(const CharSet& set,
                       std::span<const std::pair<std::string_view, TokenId>> tokens,
                       std::size_t mask_words)
    : character(Dfa::char_class(set)) {
  std::vector<std::uint32_t> counts;
  counts.reserve(tokens.size());
  std::uint32_t longest = 1;
  for (const auto& [bytes, token] : tokens) {
    counts.push_back(count_characters(character, bytes));
    if (counts.back() != kNotOfSlice) longest = std::max(longest, counts.back());
  }
  for (const std::uint32_t count : kSliceCounts) {
    if (count < longest) parts.push_back({.count = count, .mask = {}, .rest = {}});
  }
  parts.push_back({.count = longest, .mask = {}, .rest = {}});
  for (Part& part : parts) {
    part.mask.assign(mask_words, 0);
    std::vector<std::pair<std::string_view, TokenId>> others;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto id = static_cast<std::size_t>(tokens[i].second);
      if (counts[i] <= part.count) {
        part.mask[id / 32] |= std::uint32_t{1} << (id % 32);
      } else {
        others.push_back(tokens[i]);
      }
    }
    part.rest = TokenTrie(std::move(others));
  }
}

}  // namespace quire
