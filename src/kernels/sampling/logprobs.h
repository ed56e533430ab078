// Ranks and the most probable tokens of a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/token_scores.h"

namespace quire {

// 1 + how many tokens are more probable than `token`; of equals, the lower id is the more probable.
std::int32_t rank_of(std::span<const float> logits, TokenId token);

// The `count` most probable tokens, best first, into `out` ([count], count <= logits.size()).
// log_sum_exp: of all logits.
void top_logprobs(std::span<const float> logits, float log_sum_exp, std::span<TokenLogprob> out);

}  // namespace quire
