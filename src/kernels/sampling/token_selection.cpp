#include "kernels/sampling/token_selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace quire {
namespace {

// Ranges of weights, from 1 down: the exponent and four bits of the mantissa, so that neighbouring
// ranges differ by about 5%.
constexpr std::uint32_t kMantissaBits = 4;
constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F) >> (23 - kMantissaBits);
constexpr std::size_t kNumRanges = kOne + 1;

// Tokens that what top_p leaves out may be expected to be at least.
constexpr double kLikelyTail = 512;

// 0 for a weight of 1; larger for smaller weights.
std::size_t range_of(float weight) {
  return kOne - std::min(std::bit_cast<std::uint32_t>(weight) >> (23 - kMantissaBits), kOne);
}

}  // namespace

TokenSelection::TokenSelection(std::int64_t vocab_size)
    : weights_(static_cast<std::size_t>(vocab_size)),
      blocks_(static_cast<std::size_t>(TokenBlock::count(vocab_size))) {
  largest_.reserve(blocks_.size());
  candidates_.reserve(weights_.size());
  border_.reserve(weights_.size());
}

std::uint64_t TokenSelection::bytes(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size) * (sizeof(float) + 2 * sizeof(Candidate)) +
         static_cast<std::uint64_t>(TokenBlock::count(vocab_size)) *
             (sizeof(TokenBlock) + sizeof(float));
}

TokenId TokenSelection::draw(const RowKernels& kernels, const TokenDraw& draw,
                             std::span<const float> logits, float max_logit) {
  // Above 0 at any temperature, so that banned tokens keep a weight of 0.
  const float inverse_temperature =
      std::max(static_cast<float>(1.0 / draw.temperature), std::numeric_limits<float>::min());
  kernels.token_weights(logits.data(), std::ssize(logits), max_logit, inverse_temperature,
                        weights_.data(), blocks_.data());
  const bool cuts_k = draw.top_k > 0 && draw.top_k < std::ssize(weights_);
  const bool cuts_p = draw.top_p < 1;
  if (!cuts_k && !cuts_p && draw.min_p <= 0) return draw_from_all(draw.uniform);

  float min_weight = static_cast<float>(draw.min_p);
  // Whoever may be among the k best; the exact border is drawn below.
  if (cuts_k) min_weight = std::max(min_weight, weight_of_rank(draw.top_k));
  if (!cuts_k && min_weight <= 0) {
    const double all = total();
    gather_top_p(logits, draw.top_p, all);
    keep_top_p(draw.top_p, all);
    return draw_from_candidates(draw.uniform);
  }
  gather(logits, min_weight);
  if (cuts_k) keep_top_k(draw.top_k);
  if (cuts_p) keep_top_p(draw.top_p, candidate_weight());
  return draw_from_candidates(draw.uniform);
}

std::span<const float> TokenSelection::weights_of(std::size_t block) const {
  constexpr auto kTokens = static_cast<std::size_t>(TokenBlock::kTokens);
  const auto rest = std::span(weights_).subspan(block * kTokens);
  return rest.first(std::min(rest.size(), kTokens));
}

double TokenSelection::total() const {
  double total = 0;
  for (const TokenBlock& block : blocks_) total += static_cast<double>(block.sum);
  return total;
}

TokenId TokenSelection::draw_from_all(double uniform) const {
  const double target = uniform * total();
  double end = 0;
  double begin = 0;  // of the block
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].largest == 0) continue;
    drawn = i;
    begin = end;
    end += static_cast<double>(blocks_[i].sum);
    if (target < end) break;
  }
  // The block's sum is rounded, that of its tokens is not.
  const std::span<const float> weights = weights_of(drawn);
  double exact = 0;
  for (const float weight : weights) exact += static_cast<double>(weight);
  const double target_in_block = (target - begin) / (end - begin) * exact;
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    sum += static_cast<double>(weights[i]);
    last = i;
    if (target_in_block < sum) break;
  }
  return static_cast<TokenId>(drawn * static_cast<std::size_t>(TokenBlock::kTokens) + last);
}

double TokenSelection::candidate_weight() const {
  double sum = 0;
  for (const Candidate& each : candidates_) sum += static_cast<double>(each.weight);
  return sum;
}

TokenId TokenSelection::draw_from_candidates(double uniform) const {
  const double target = uniform * candidate_weight();
  double sum = 0;
  for (const Candidate& each : candidates_) {
    sum += static_cast<double>(each.weight);
    if (target < sum) return each.token;
  }
  return candidates_.back().token;
}

void TokenSelection::gather(std::span<const float> logits, float min_weight) {
  candidates_.clear();
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    const float largest = blocks_[block].largest;
    if (largest < min_weight || largest == 0) continue;
    std::size_t token = block * static_cast<std::size_t>(TokenBlock::kTokens);
    for (const float weight : weights_of(block)) {
      if (weight >= min_weight && weight != 0) {
        candidates_.push_back({logits[token], weight, static_cast<TokenId>(token)});
      }
      ++token;
    }
  }
}

// Those that top_p may keep: what is left out has less than the share that it leaves out. That is
// sure of tokens which could be so few only all together; mostly it is so of far heavier ones.
void TokenSelection::gather_top_p(std::span<const float> logits, double top_p, double total) {
  const double all_tokens = 2 * static_cast<double>(weights_.size());
  for (double tokens = kLikelyTail;; tokens *= 16) {
    gather(logits, static_cast<float>((1 - top_p) * total / std::min(tokens, all_tokens)));
    if (tokens >= all_tokens || candidate_weight() >= top_p * total) return;
  }
}

// A weight that at least `rank` tokens reach: of so many blocks the heaviest does; where there are
// fewer blocks, close below that of the rank-th best.
float TokenSelection::weight_of_rank(std::int64_t rank) {
  if (rank <= std::ssize(blocks_)) {
    largest_.clear();
    for (const TokenBlock& block : blocks_) largest_.push_back(block.largest);
    const auto at = largest_.begin() + rank - 1;
    std::nth_element(largest_.begin(), at, largest_.end(), std::greater<>());
    return *at;
  }
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

// The smallest set of best candidates whose share of `total` reaches top_p.
void TokenSelection::keep_top_p(double top_p, double total) {
  std::array<double, kNumRanges> sums{};
  for (const Candidate& each : candidates_) {
    sums[range_of(each.weight)] += static_cast<double>(each.weight);
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
