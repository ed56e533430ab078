#include "draft/ngram_drafter.h"

#include <algorithm>

namespace quire {

NgramDrafter::NgramDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes)
    : longest_(config.prompt_lookup_max), texts_(grams(config), max_bytes) {
  matches_.reserve(TokenIndex::kMaxVisited);
}

std::vector<std::int32_t> NgramDrafter::grams(const SpeculativeConfig& config) {
  std::vector<std::int32_t> grams;
  for (std::int32_t gram = config.prompt_lookup_min; gram <= config.prompt_lookup_max; gram *= 2) {
    grams.push_back(gram);
  }
  return grams;
}

bool NgramDrafter::begin(RequestId request_id, std::size_t max_tokens) {
  return texts_.begin(request_id, max_tokens);
}

void NgramDrafter::read(RequestId request_id, std::span<const TokenId> tokens) {
  texts_.read(request_id, tokens);
}

void NgramDrafter::end(RequestId request_id, std::span<const TokenId> /*output*/) {
  texts_.end(request_id);
}

void NgramDrafter::draft(RequestId request_id, std::span<const TokenId> tokens, std::int32_t most,
                         Draft& draft) {
  draft.tokens.clear();
  draft.match = 0;
  const TokenIndex* const index = texts_.read(request_id, tokens);
  if (index == nullptr || most <= 0) return;
  // Compared further than matters, for how far they agree says how likely it is that they go on to.
  index->find(tokens, tokens, SpeculativeConfig::kMaxLookup, matches_);
  if (matches_.empty()) return;
  const auto best = std::ranges::max_element(
      matches_, {}, [&](const auto& match) { return std::min(match.length, longest_); });
  draft.match = best->length;
  const auto from = static_cast<std::size_t>(best->end);
  for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i) {
    const std::size_t at = from + i;
    draft.tokens.push_back(at < tokens.size() ? tokens[at] : draft.tokens[at - tokens.size()]);
  }
}

}  // namespace quire
