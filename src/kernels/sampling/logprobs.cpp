#include "kernels/sampling/logprobs.h"

#include <algorithm>

namespace quire {

std::int32_t rank_of(std::span<const float> logits, TokenId token) {
  const auto at = static_cast<std::size_t>(token);
  const float logit = logits[at];
  std::int32_t rank = 1;
  for (std::size_t i = 0; i < at; ++i) rank += logits[i] >= logit ? 1 : 0;
  for (std::size_t i = at + 1; i < logits.size(); ++i) rank += logits[i] > logit ? 1 : 0;
  return rank;
}

// A heap with the worst on top, kept in `out` itself; `logprob` is a logit until the end.
void top_logprobs(std::span<const float> logits, float log_sum_exp, std::span<TokenLogprob> out) {
  if (out.empty()) return;
  const auto better = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token_id < b.token_id;
  };
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) out[i] = {static_cast<TokenId>(i), logits[i], 0};
  std::make_heap(out.begin(), out.end(), better);
  for (std::size_t i = count; i < logits.size(); ++i) {
    // A later id never beats an equal one.
    if (!(logits[i] > out[0].logprob)) continue;
    std::pop_heap(out.begin(), out.end(), better);
    out[count - 1] = {static_cast<TokenId>(i), logits[i], 0};
    std::push_heap(out.begin(), out.end(), better);
  }
  std::sort_heap(out.begin(), out.end(), better);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].logprob -= log_sum_exp;
    out[i].rank = static_cast<std::int32_t>(i) + 1;
  }
}

}  // namespace quire
