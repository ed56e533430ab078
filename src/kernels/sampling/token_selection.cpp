#include "kernels/sampling/token_selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sampling/token_weights.h"

namespace quire {
namespace {

// Ranges of weights, from 1 down: the exponent and four bits of the mantissa, so that neighbouring
// ranges differ by about 5%.
constexpr std::uint32_t kMantissaBits = 4;
constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F) >> (23 - kMantissaBits);
constexpr std::size_t kNumRanges = kOne + 1;

// 0 for a weight of 1; larger for smaller weights.
std::size_t range_of(float weight) {
  return kOne - std::min(std::bit_cast<std::uint32_t>(weight) >> (23 - kMantissaBits), kOne);
}

}  // namespace

TokenSelection::TokenSelection(std::int64_t vocab_size)
    : weights_(static_cast<std::size_t>(vocab_size)) {
  candidates_.reserve(static_cast<std::size_t>(vocab_size));
  border_.reserve(static_cast<std::size_t>(vocab_size));
}

std::uint64_t TokenSelection::bytes(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size) * (sizeof(float) + 2 * sizeof(Candidate));
}

TokenId TokenSelection::draw(const TokenDraw& draw, std::span<const float> logits,
                             float max_logit) {
  // Above 0 at any temperature, so that banned tokens keep a weight of 0.
  const float inverse_temperature =
      std::max(static_cast<float>(1.0 / draw.temperature), std::numeric_limits<float>::min());
  token_weights(logits.data(), logits.size(), max_logit, inverse_temperature, weights_.data());
  const bool cuts_k = draw.top_k > 0 && draw.top_k < std::ssize(weights_);
  const bool cuts_p = draw.top_p < 1;
  if (!cuts_k && !cuts_p && draw.min_p <= 0) return draw_from_all(draw.uniform);

  float min_weight = static_cast<float>(draw.min_p);
  // Whoever may be among the k best; the exact border is drawn below.
  if (cuts_k) min_weight = std::max(min_weight, weight_of_rank(draw.top_k));
  gather(logits, min_weight);
  if (cuts_k) keep_top_k(draw.top_k);
  if (cuts_p) keep_top_p(draw.top_p);
  return draw_from_candidates(draw.uniform);
}

TokenId TokenSelection::draw_from_all(double uniform) const {
  double total = 0;
  for (const float weight : weights_) total += static_cast<double>(weight);
  const double target = uniform * total;
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    sum += static_cast<double>(weights_[i]);
    last = i;
    if (target < sum) break;
  }
  return static_cast<TokenId>(last);
}

TokenId TokenSelection::draw_from_candidates(double uniform) const {
  double total = 0;
  for (const Candidate& each : candidates_) total += static_cast<double>(each.weight);
  const double target = uniform * total;
  double sum = 0;
  for (const Candidate& each : candidates_) {
    sum += static_cast<double>(each.weight);
    if (target < sum) return each.token;
  }
  return candidates_.back().token;
}

void TokenSelection::gather(std::span<const float> logits, float min_weight) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (weights_[i] < min_weight || weights_[i] == 0) continue;
    candidates_.push_back({logits[i], weights_[i], static_cast<TokenId>(i)});
  }
}

// A weight that at least `rank` tokens reach, close below that of the rank-th best.
float TokenSelection::weight_of_rank(std::int64_t rank) const {
  std::array<std::int32_t, kNumRanges> counts{};
  for (const float weight : weights_) ++counts[range_of(weight)];
  std::int64_t reached = 0;
  for (std::size_t range = 0; range < kNumRanges; ++range) {
    reached += counts[range];
    if (reached < rank) continue;
    return std::bit_cast<float>(static_cast<std::uint32_t>(kOne - range) << (23 - kMantissaBits));
  }
  return 0;
}

void TokenSelection::keep_top_k(std::int64_t top_k) {
  if (top_k >= std::ssize(candidates_)) return;
  border_ = candidates_;
  const auto kth = border_.begin() + top_k - 1;
  std::nth_element(border_.begin(), kth, border_.end(), before);
  const Candidate last = *kth;
  std::erase_if(candidates_, [&](const Candidate& each) { return before(last, each); });
}

// The smallest set of best candidates whose share of all weights reaches top_p.
void TokenSelection::keep_top_p(double top_p) {
  std::array<double, kNumRanges> sums{};
  double total = 0;
  for (const Candidate& each : candidates_) {
    sums[range_of(each.weight)] += static_cast<double>(each.weight);
    total += static_cast<double>(each.weight);
  }
  const double target = top_p * total;
  double sum = 0;
  std::size_t range = 0;
  while (range + 1 < kNumRanges && sum + sums[range] < target) sum += sums[range++];

  border_.clear();
  for (const Candidate& each : candidates_) {
    if (range_of(each.weight) == range) border_.push_back(each);
  }
  // Rounding of the sums may leave the target just out of reach of the last range.
  if (border_.empty()) return;
  std::sort(border_.begin(), border_.end(), before);
  std::size_t last = 0;
  for (sum += static_cast<double>(border_[0].weight); sum < target && last + 1 < border_.size();
       ++last) {
    sum += static_cast<double>(border_[last + 1].weight);
  }
  const Candidate limit = border_[last];
  std::erase_if(candidates_, [&](const Candidate& each) { return before(limit, each); });
}

}  // namespace quire
