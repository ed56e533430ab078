// What a request's mask and parameters do to its logits before a token is chosen: bans, biases,
// penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"

namespace quire {

// One request's view of a position to sample at.
struct SampleContext {
  const SamplingParams* params = nullptr;
  std::span<const TokenId> token_ids;  // prompt, then output
  std::int32_t num_prompt_tokens = 0;
  std::span<const std::uint32_t> mask = {};  // TokenMask::words; empty: every token is allowed

  std::span<const TokenId> output() const {
    return token_ids.subspan(static_cast<std::size_t>(num_prompt_tokens));
  }
};

// Scratch of one worker.
class LogitTransforms {
 public:
  explicit LogitTransforms(std::int64_t vocab_size);
  static std::uint64_t bytes(std::int64_t vocab_size);

  // Whether `apply` would change any logit at this position.
  static bool needed(const SampleContext& context);

  // Changes `logits` ([vocab_size]): first the mask, then in the order that SamplingParams names. A
  // banned token's logit becomes minus infinity. Bad words and min_tokens never ban the last token
  // that is left: where they would, they do not apply (an output must go on with some token).
  void apply(const SampleContext& context, std::span<const TokenId> eos_token_ids,
             std::span<float> logits);

 private:
  static void keep_masked(std::span<const std::uint32_t> mask, std::span<float> logits);
  void keep_allowed(std::span<const TokenId> allowed, std::span<float> logits);
  void ban(const SampleContext& context, std::span<const TokenId> eos_token_ids,
           std::span<float> logits);
  void penalize(const SampleContext& context, std::span<float> logits);

  std::vector<std::uint32_t> counts_;  // [vocab_size], zero between calls
  std::vector<TokenId> banned_;
  std::vector<float> saved_;
};

}  // namespace quire
