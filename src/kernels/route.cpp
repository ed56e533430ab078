// A mixture of experts: which experts a row goes to.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr Stage kRouteStage = {StageKind::kKernel, "route"};
// Comparisons below which handing rows to another thread costs more than it saves.
constexpr std::int64_t kGrainComparisons = 8192;
constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// One row. Its logits become scores where something is added to these, or to each other; else they
// are in the order of the scores, and of more of them than exp() can tell apart.
class RowRouter {
 public:
  RowRouter(const RouteArgs& args, std::int64_t row)
      : args_(args),
        scores_(args.logits + row * args.num_experts),
        experts_(args.experts + row * args.experts_per_row),
        weights_(args.weights + row * args.experts_per_row),
        sigmoid_(args.routing.score == RouterScore::kSigmoid),
        exponents_(!sigmoid_ && args.choice_bias == nullptr &&
                   args.routing.group_rank == GroupRank::kBest) {}

  void route() {
    if (sigmoid_) {
      for (std::int64_t e = 0; e < args_.num_experts; ++e)
        scores_[e] = 1.0F / (1.0F + std::exp(-scores_[e]));
    } else {
      softmax();
    }
    for (std::int32_t left = args_.routing.num_groups; left > args_.routing.groups_per_row; --left)
      exclude_worst_group();
    choose();
    weigh();
  }

 private:
  float choice(std::int64_t expert) const {
    return args_.choice_bias == nullptr ? scores_[expert]
                                        : scores_[expert] + args_.choice_bias[expert];
  }

  void softmax() {
    float* const end = scores_ + args_.num_experts;
    largest_ = *std::max_element(scores_, end);
    const Routing& routing = args_.routing;
    if (exponents_ && routing.weights_sum_to_one && routing.min_weight_sum == 0.0F) return;
    for (const float* logit = scores_; logit != end; ++logit) sum_ += std::exp(*logit - largest_);
    if (exponents_) return;
    for (float* logit = scores_; logit != end; ++logit) *logit = std::exp(*logit - largest_) / sum_;
  }

  float rank_of(std::int64_t first, std::int64_t size) const {
    float best = choice(first);
    float second = kExcluded;
    for (std::int64_t e = first + 1; e < first + size; ++e) {
      const float value = choice(e);
      if (value > best) {
        second = best;
        best = value;
      } else if (value > second) {
        second = value;
      }
    }
    return args_.routing.group_rank == GroupRank::kBest ? best : best + second;
  }

  void exclude_worst_group() {
    const std::int64_t size = args_.num_experts / args_.routing.num_groups;
    std::int64_t worst = -1;
    float worst_rank = 0.0F;
    for (std::int64_t first = 0; first < args_.num_experts; first += size) {
      if (std::all_of(scores_ + first, scores_ + first + size,
                      [](float score) { return score == kExcluded; })) {
        continue;
      }
      const float of_group = rank_of(first, size);
      if (worst >= 0 && of_group > worst_rank) continue;
      worst = first;
      worst_rank = of_group;
    }
    if (worst >= 0) std::fill_n(scores_ + worst, size, kExcluded);
  }

  void choose() {
    const std::int64_t count = args_.experts_per_row;
    for (std::int64_t rank = 0; rank < count; ++rank) {
      const auto is_taken = [&](std::int32_t expert) {
        return std::find(experts_, experts_ + rank, expert) != experts_ + rank;
      };
      std::int32_t best = 0;
      while (is_taken(best)) ++best;
      for (std::int32_t expert = best + 1; expert < args_.num_experts; ++expert) {
        if (choice(expert) > choice(best) && !is_taken(expert)) best = expert;
      }
      experts_[rank] = best;
    }
  }

  void weigh() {
    const Routing& routing = args_.routing;
    const std::int64_t count = args_.experts_per_row;
    float sum = 0.0F;
    for (std::int64_t rank = 0; rank < count; ++rank) {
      const float score = scores_[experts_[rank]];
      weights_[rank] = exponents_ ? std::exp(score - largest_) : score;
      sum += weights_[rank];
    }
    if (routing.weights_sum_to_one) {
      sum = std::max(sum, exponents_ ? routing.min_weight_sum * sum_ : routing.min_weight_sum);
    } else {
      sum = exponents_ ? sum_ : 1.0F;
    }
    for (std::int64_t rank = 0; rank < count; ++rank)
      weights_[rank] = weights_[rank] / sum * routing.weight_scale;
  }

  const RouteArgs& args_;
  float* scores_;  // [num_experts]
  std::int32_t* experts_;
  float* weights_;
  bool sigmoid_;
  bool exponents_;  // scores_ are logits, of which those of a softmax are exponentials
  float largest_ = 0.0F;
  float sum_ = 0.0F;  // of the softmax, where it is needed
};

}  // namespace

void route(OpContext& ctx, const RouteArgs& args) {
  const OpSpan span(ctx, kRouteStage);
  const std::int64_t compared = args.num_experts * args.experts_per_row;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainComparisons / compared);
  ctx.pool.parallel_for(args.rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) RowRouter(args, row).route();
  });
}

}  // namespace quire
