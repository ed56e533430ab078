#include "draft/suffix_drafter.h"

#include <algorithm>
#include <utility>

namespace quire {

SuffixDrafter::SuffixDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes,
                             std::size_t max_shared_tokens)
    : LookupDrafter({kGrams.begin(), kGrams.end()}, max_bytes),
      config_(config),
      shared_(max_shared_tokens, static_cast<std::size_t>(config.suffix_max_cached_requests),
              kGrams) {
  votes_.reserve(TokenIndex::kMaxVisited);
}

void SuffixDrafter::end(RequestId request_id, std::span<const TokenId> output) {
  LookupDrafter::end(request_id, output);
  shared_.add(output);
}

void SuffixDrafter::look_up(const TokenIndex& index, std::span<const TokenId> tokens,
                            std::int32_t most, Draft& draft) {
  index.find(tokens, tokens, config_.suffix_max_tree_depth, matches());
  double best = follow(tokens, /*own=*/true, most, draft);
  for (std::size_t i = 0; i < 2; ++i) {
    const SharedOutputs::Half& half = shared_.half(i);
    half.index.find(half.text, tokens, config_.suffix_max_tree_depth, matches());
    const double score = follow(half.text, /*own=*/false, most, other_);
    if (score <= best) continue;
    best = score;
    std::swap(draft, other_);
  }
}

double SuffixDrafter::follow(std::span<const TokenId> text, bool own, std::int32_t most,
                             Draft& draft) {
  draft.tokens.clear();
  draft.match = 0;
  if (matches().empty()) return 0;
  draft.match = std::ranges::max(matches(), {}, &TokenIndex::Match::length).length;
  std::erase_if(matches(), [&](const auto& match) { return match.length < draft.match; });
  const auto by_match =
      static_cast<std::int32_t>(config_.suffix_max_spec_factor * static_cast<double>(draft.match));
  most = std::min(most, by_match);
  double probability = 1;
  double score = 0;
  for (std::int32_t i = 0; i < most; ++i) {
    // The request's own text goes on with what is guessed.
    const auto token_at = [&](const TokenIndex::Match& match) {
      const auto at = static_cast<std::size_t>(match.end + i);
      if (at < text.size()) return text[at];
      return own ? draft.tokens[at - text.size()] : SharedOutputs::kSeparator;
    };
    votes_.clear();
    for (const TokenIndex::Match& match : matches()) {
      const TokenId token = token_at(match);
      const auto vote = std::ranges::find(votes_, token, &Vote::token);
      if (vote == votes_.end()) {
        votes_.push_back({token, 1});
      } else {
        ++vote->count;
      }
    }
    const auto best = std::ranges::max_element(votes_, {}, &Vote::count);
    probability *= static_cast<double>(best->count) / static_cast<double>(matches().size());
    if (best->token == SharedOutputs::kSeparator) break;
    if (probability < config_.suffix_min_token_prob) break;
    const TokenId token = best->token;
    std::erase_if(matches(), [&](const auto& match) { return token_at(match) != token; });
    draft.tokens.push_back(token);
    score += probability;
  }
  return score;
}

}  // namespace quire
