// A mixture of experts: which experts a row goes to. A warp has a row. What the CPU adds up one
// expert after the other is added so here, and exp() is rounded from double, as that of the CPU's
// library nearly is: near equals are told apart alike. At most 32 groups and 2048 experts.
#include <cstdint>

#include <climits>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sampling/number_order.cuh"

namespace quire::cuda {
namespace {

constexpr int kLanes = 32;
constexpr float kExcludedScore = -INFINITY;

// e^x to 3e-13 of its value, then rounded: Cody and Waite's reduction and the Taylor polynomial of
// degree 10. Without a branch, so that several are computed at once.
__device__ float exp_rounded(float x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2High = 0x1.62e42fefa0000p-1;
  constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  constexpr float kMost = 150.0F;                // further out it is 0 or infinite
  const float bounded = x < -kMost ? -kMost : x > kMost ? kMost : x;  // NaN stays
  const double shifted = double{bounded} * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (double{bounded} - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const int power = __double2loint(shifted);  // n
  return static_cast<float>(p * __hiloint2double((power + 1023) * (1 << 20), 0));
}

// Shared memory of a row.
struct RouteScratch {
  float* scores;          // [num_experts]
  float* choices;         // [num_experts], what experts are chosen by; exponentials, before
  std::int32_t* experts;  // [experts_per_row]
  float* weights;         // [experts_per_row]

  static std::size_t bytes(const RouteArgs& args) {
    return static_cast<std::size_t>(2 * (args.num_experts + args.experts_per_row)) * sizeof(float);
  }
  __device__ RouteScratch(const RouteArgs& args, float* memory)
      : scores(memory),
        choices(scores + args.num_experts),
        experts(reinterpret_cast<std::int32_t*>(choices + args.num_experts)),
        weights(reinterpret_cast<float*>(experts + args.experts_per_row)) {}
};

// A lane has the experts 32 i + lane, for i < kPerLane. Logits become scores where something is
// added to these, or to each other; else they are in the order of the scores, and of more of them
// than exp() can tell apart.
template <int kPerLane>
class RowRouter {
 public:
  __device__ RowRouter(const RouteArgs& args, std::int64_t row, const RouteScratch& scratch)
      : args_(args),
        s_(scratch),
        row_(row),
        lane_(static_cast<std::int32_t>(threadIdx.x)),
        num_experts_(static_cast<std::int32_t>(args.num_experts)),
        sigmoid_(args.routing.score == RouterScore::kSigmoid),
        exponents_(!sigmoid_ && args.choice_bias == nullptr &&
                   args.routing.group_rank == GroupRank::kBest) {}

  // What never changes.
  __device__ void read_bias() {
    if (args_.choice_bias == nullptr) return;
    for_each([&](int i, std::int32_t e) { bias_[i] = args_.choice_bias[e]; });
  }

  __device__ void route() {
    const float* const logits = args_.logits + row_ * num_experts_;
    for_each([&](int i, std::int32_t e) { scores_[i] = logits[e]; });
    if (sigmoid_) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) scores_[i] = __frcp_rn(1.0F + exp_rounded(-scores_[i]));
    } else {
      softmax();
    }
    for_each([&](int i, std::int32_t e) {
      s_.scores[e] = scores_[i];
      s_.choices[e] = args_.choice_bias == nullptr ? scores_[i] : scores_[i] + bias_[i];
    });
    if (args_.routing.num_groups > args_.routing.groups_per_row) exclude_groups();
    choose();
    weigh();
  }

 private:
  // Calls fn(i, e) for this lane's experts e; what it writes is seen by all lanes.
  template <typename F>
  __device__ void for_each(const F& fn) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const std::int32_t e = kLanes * i + lane_;
      if (e < num_experts_) fn(i, e);
    }
    __syncwarp();
  }

  __device__ void softmax() {
    float largest = kExcludedScore;
    for_each([&](int i, std::int32_t) { largest = fmaxf(largest, scores_[i]); });
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, lanes));
    }
    // As std::max_element() has it: nothing is larger than a NaN that comes first.
    const float first = __shfl_sync(~0U, scores_[0], 0);
    largest_ = isnan(first) ? first : largest;
    const Routing& routing = args_.routing;
    if (exponents_ && routing.weights_sum_to_one && routing.min_weight_sum == 0.0F) return;
    float exponentials[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) exponentials[i] = exp_rounded(scores_[i] - largest_);
    for_each([&](int i, std::int32_t e) { s_.choices[e] = exponentials[i]; });
#pragma unroll 16
    for (std::int32_t e = 0; e < num_experts_; ++e) sum_ += s_.choices[e];
    if (exponents_) return;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) scores_[i] = exponentials[i] / sum_;
  }

  // The two largest of a group, as they are found one after the other: NaN is not larger.
  struct TwoBest {
    float best = kExcludedScore;
    float second = kExcludedScore;
    __device__ void see(float value) {
      second = value > best ? best : value > second ? value : second;
      best = value > best ? value : best;
    }
  };

  // A group as its lane knows it: lane i has group i.
  struct Group {
    float rank = 0.0F;
    bool is_left = false;  // it exists, and not all of its scores are minus infinity
  };

  // Several lanes look at a group, all groups at once.
  __device__ Group group_of_lane(std::int32_t num_groups, std::int32_t size) {
    std::int32_t lanes = 1;
    while (2 * lanes * num_groups <= kLanes) lanes *= 2;
    const std::int32_t group = lane_ / lanes;
    const float* const choices = s_.choices + (group < num_groups ? group * size : 0);
    TwoBest two;
    bool is_left = false;
#pragma unroll 8
    for (std::int32_t i = lane_ % lanes; i < size; i += lanes) {
      const float choice = choices[i];
      two.see(choice);
      is_left = is_left || choice != kExcludedScore;  // no bias is infinite
    }
    __syncwarp();
    for (std::int32_t other = 1; other < lanes; other *= 2) {
      const float best = __shfl_xor_sync(~0U, two.best, other);
      const float second = __shfl_xor_sync(~0U, two.second, other);
      two.see(best);
      two.see(second);
      is_left = __shfl_xor_sync(~0U, is_left, other) || is_left;
    }
    const bool is_best = args_.routing.group_rank == GroupRank::kBest;
    const float rank = isnan(choices[0]) ? choices[0] : is_best ? two.best : two.best + two.second;
    const int from = lane_ * lanes % kLanes;
    const float rank_of_lane = __shfl_sync(~0U, rank, from);
    const bool left_of_lane = __shfl_sync(~0U, is_left, from);
    return {rank_of_lane, lane_ < num_groups && left_of_lane};
  }

  // Of groups that are left, that of the lowest rank, the last among equals; -1: there is none. As
  // the CPU compares one after the other, what comes after a NaN takes its place.
  __device__ std::int32_t worst_group(const Group& group) const {
    std::uint32_t among = __ballot_sync(~0U, group.is_left);
    const std::uint32_t nans = __ballot_sync(~0U, group.is_left && isnan(group.rank));
    if (nans != 0) {
      const std::int32_t last = 31 - __clz(static_cast<int>(nans));
      among &= ~((2U << last) - 1U);
      if (among == 0) return last;
    }
    const bool counts = (among >> lane_ & 1U) != 0;
    const std::uint32_t order = counts ? order_of_number(group.rank) : UINT32_MAX;
    const std::uint32_t lowest = __reduce_min_sync(~0U, order);
    return __reduce_max_sync(~0U, counts && order == lowest ? lane_ : -1);
  }

  __device__ void exclude_groups() {
    const std::int32_t num_groups = args_.routing.num_groups;
    const std::int32_t size = num_experts_ / num_groups;
    Group group = group_of_lane(num_groups, size);
    for (std::int32_t left = num_groups; left > args_.routing.groups_per_row; --left) {
      const std::int32_t worst = worst_group(group);
      if (worst < 0) break;
      if (worst == lane_) group.is_left = false;
      for (std::int32_t e = worst * size + lane_; e < (worst + 1) * size; e += kLanes) {
        s_.scores[e] = kExcludedScore;
        s_.choices[e] = kExcludedScore;
      }
    }
    __syncwarp();
  }

  // The first of the largest that are left of this lane's. As minus infinity, no NaN takes another
  // expert's place.
  __device__ Place best_of_lane() const {
    Place best;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (order_[i] > best.order) best = {order_[i], kLanes * i + lane_};
    }
    return best;
  }

  __device__ void choose() {
    bool found_nan = false;
    for_each([&](int i, std::int32_t e) {
      const float choice = s_.choices[e];
      found_nan = found_nan || isnan(choice);
      order_[i] = order_of_number(isnan(choice) ? kExcludedScore : choice);
    });
    found_nan = __any_sync(~0U, found_nan);
    Place of_lane = best_of_lane();
    for (std::int64_t rank = 0; rank < args_.experts_per_row; ++rank) {
      std::int32_t best = first_largest_of_warp(of_lane).index;
      if (found_nan) best = first_left_if_nan(best);
      if (lane_ == 0) s_.experts[rank] = best;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {  // at most one of all lanes' is it
        order_[i] = kLanes * i + lane_ == best ? 0 : order_[i];
      }
      of_lane = best_of_lane();
    }
    __syncwarp();
  }

  // Nothing is larger than NaN: the first expert that is left stays the best if its choice is one.
  __device__ std::int32_t first_left_if_nan(std::int32_t best) const {
    std::int32_t first = INT_MAX;
#pragma unroll
    for (int i = kPerLane - 1; i >= 0; --i) {
      if (order_[i] != 0) first = kLanes * i + lane_;
    }
    first = __reduce_min_sync(~0U, first);
    return isnan(s_.choices[first]) ? first : best;
  }

  __device__ void weigh() {
    const Routing& routing = args_.routing;
    const std::int64_t count = args_.experts_per_row;
    for (std::int64_t rank = lane_; rank < count; rank += kLanes) {
      const float score = s_.scores[s_.experts[rank]];
      s_.weights[rank] = exponents_ ? exp_rounded(score - largest_) : score;
    }
    __syncwarp();
    float sum = 0.0F;
#pragma unroll 8
    for (std::int64_t rank = 0; rank < count; ++rank) sum += s_.weights[rank];
    if (routing.weights_sum_to_one) {
      const float least = exponents_ ? routing.min_weight_sum * sum_ : routing.min_weight_sum;
      sum = sum < least ? least : sum;  // NaN stays
    } else {
      sum = exponents_ ? sum_ : 1.0F;
    }
    for (std::int64_t rank = lane_; rank < count; rank += kLanes) {
      args_.experts[row_ * count + rank] = s_.experts[rank];
      args_.weights[row_ * count + rank] = s_.weights[rank] / sum * routing.weight_scale;
    }
  }

  const RouteArgs& args_;
  RouteScratch s_;
  std::int64_t row_;
  std::int32_t lane_;
  std::int32_t num_experts_;
  bool sigmoid_;
  bool exponents_;  // the scores are logits, of which those of a softmax are exponentials
  float largest_ = 0.0F;
  float sum_ = 0.0F;  // of the softmax, where it is needed
  float bias_[kPerLane] = {};
  float scores_[kPerLane] = {};
  std::uint32_t order_[kPerLane] = {};  // of what experts are chosen by; 0: taken
};

template <int kPerLane>
__global__ void __launch_bounds__(kLanes) route_rows(const __grid_constant__ RouteArgs args) {
  extern __shared__ float memory[];
  let_next_start();
  RowRouter<kPerLane> router(args, blockIdx.x, RouteScratch(args, memory));
  router.read_bias();
  wait_for_previous();
  router.route();
}

using RouteKernel = void (*)(const RouteArgs);

RouteKernel route_kernel(std::int64_t num_experts) {
  if (num_experts <= 4 * kLanes) return route_rows<4>;
  if (num_experts <= 8 * kLanes) return route_rows<8>;
  if (num_experts <= 16 * kLanes) return route_rows<16>;
  return route_rows<64>;
}

}  // namespace

void route(const Launch& launch, const RouteArgs& args) {
  if (args.rows == 0) return;
  launch_dependent(route_kernel(args.num_experts), static_cast<unsigned>(args.rows), kLanes,
                   RouteScratch::bytes(args), launch.stream, args);
}

}  // namespace quire::cuda
