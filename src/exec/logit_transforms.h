// What a request's mask and parameters ask for, as a device reads it when it chooses a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"
#include "kernels/sampling_args.h"

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

// Appends the tokens that bad words and min_tokens ban at this position.
void append_bans(const SampleContext& context, std::span<const TokenId> eos_token_ids,
                 std::vector<TokenId>& bans);

// `bans`: those of append_bans(). Borrows the context's lists and `bans`.
LogitEdits edits_of(const SampleContext& context, std::span<const TokenId> bans);

// With `uniform` as the random number.
TokenDraw draw_of(const SamplingParams& params, double uniform);

}  // namespace quire
