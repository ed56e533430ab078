#include "draft/ngram_drafter.h"

#include <algorithm>

namespace quire {

NgramDrafter::NgramDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes)
    : LookupDrafter(grams(config), max_bytes), longest_(config.prompt_lookup_max) {}

std::vector<std::int32_t> NgramDrafter::grams(const SpeculativeConfig& config) {
  std::vector<std::int32_t> grams;
  for (std::int32_t gram = config.prompt_lookup_min; gram <= config.prompt_lookup_max; gram *= 2) {
    grams.push_back(gram);
  }
  return grams;
}

void NgramDrafter::look_up(const TokenIndex& index, std::span<const TokenId> tokens,
                           std::int32_t most, Draft& draft) {
  // Compared further than matters, for how far they agree says how likely it is that they go on to.
  index.find(tokens, tokens, SpeculativeConfig::kMaxLookup, matches());
  if (matches().empty()) return;
  const auto best = std::ranges::max_element(
      matches(), {}, [&](const auto& match) { return std::min(match.length, longest_); });
  draft.match = best->length;
  const auto from = static_cast<std::size_t>(best->end);
  for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i) {
    const std::size_t at = from + i;
    draft.tokens.push_back(at < tokens.size() ? tokens[at] : draft.tokens[at - tokens.size()]);
  }
}

}  // namespace quire
