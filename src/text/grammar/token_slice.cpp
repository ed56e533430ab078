#include "text/grammar/token_slice.h"

#include <algorithm>

namespace quire {

namespace {

constexpr std::uint32_t kNotOfSlice = UINT32_MAX;

// Counts characters, fast enough for each token of a vocabulary.
class CharacterCounter {
 public:
  explicit CharacterCounter(const Dfa& character) : next_(character.num_states() * 256) {
    for (std::size_t state = 0; state < character.num_states(); ++state) {
      for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::int32_t target = character.next(static_cast<std::int32_t>(state), byte);
        if (character.accepts(target)) target = character.start();
        next_[state * 256 + byte] = target;
      }
    }
  }

  // Of `bytes`, a begun one among them; kNotOfSlice where one is of another kind.
  std::uint32_t count(std::string_view bytes) const {
    std::uint32_t count = 0;
    std::int32_t state = 0;
    for (const char c : bytes) {
      if (state == 0) ++count;
      state = next_[static_cast<std::size_t>(state) * 256 + static_cast<unsigned char>(c)];
      if (state == Dfa::kDead) return kNotOfSlice;
    }
    return count;
  }

 private:
  std::vector<std::int32_t> next_;
};

}  // namespace

TokenSlice::TokenSlice(const CharSet& set, std::span<const std::uint32_t> part_counts,
                       std::span<const std::pair<std::string_view, TokenId>> tokens,
                       std::size_t mask_words)
    : character(Dfa::char_class(set)) {
  const CharacterCounter counter(character);
  std::vector<std::uint32_t> counts;
  counts.reserve(tokens.size());
  std::uint32_t longest = 1;
  for (const auto& [bytes, token] : tokens) {
    counts.push_back(counter.count(bytes));
    if (counts.back() != kNotOfSlice) longest = std::max(longest, counts.back());
  }
  for (const std::uint32_t count : part_counts) {
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
    part.rest = TokenTrie(others);
  }
}

}  // namespace quire
