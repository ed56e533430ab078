// How well a draft model agrees with the model that it guesses for, by the distributions of both
// after the same text: what its guesses can be right in at most, and what that depends on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/api.h"

namespace quire {

// Probabilities that a first guess is right, on average over so many places of a text, for outputs
// sampled at a temperature of 1.
struct Agreement {
  // Greedy: both have the same most probable token.
  double best = 0;
  // Both draw with one random number, tokens in order of their id: what Quire does. The output is
  // the same whatever is guessed.
  double one_number = 0;
  // Textbook rejection sampling (Leviathan et al. 2023): the sum of min(p, q), which is 1 less
  // their total variation. The output depends on the guesses.
  double rejection = 0;
  std::int64_t num_places = 0;
};

// Of one place, by both models' logits [vocab_size].
Agreement agreement_of(std::span<const float> target, std::span<const float> draft);

// A sampled output of a model and the logits that it was drawn from.
struct ScoredOutput {
  std::vector<TokenId> token_ids;
  std::vector<std::vector<float>> logits;  // [token_ids.size()][vocab_size]
};

// Samples `num_tokens` after a prompt, without guesses.
Result<ScoredOutput> sample_scored(Engine& engine, std::span<const TokenId> prompt,
                                   std::int64_t num_tokens);
// The mean over all places of an output of what `draft` says of each.
Result<Agreement> agreement_on(Engine& draft, std::span<const TokenId> prompt,
                               const ScoredOutput& output);

}  // namespace quire
