// The arithmetic of attention with tensor cores that all its kernels share, so that a row has the
// same bits in each of them (attention_paged.h). Operations are named one by one where a compiler
// could fuse them in one kernel and not in another.
//
// Lane (g, t) = (lane / 4, lane % 4) of a warp has, of 8 keys that are columns of scores, those of
// keys 2t and 2t + 1, of rows g and g + 8 (PTX ISA, "mma.m16n8k16"; wgmma does the same), which are
// weights as operand A without an exchange. Sums of weights are float32 sums of weights before they
// are rounded: a lane adds its own of each group of 32 keys in their order, then its groups, then
// the lanes' sums are added.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/attention_scratch.h"
#include "kernels/row_args.h"

namespace quire::cuda {

inline constexpr float kLog2E = 0x1.715476p+0F;
inline constexpr std::int32_t kGroupKeys = 32;
inline constexpr std::int32_t kRangeGroups = kRangeKeys / kGroupKeys;

// sums += A B, rounded as tensor cores do.
__device__ inline void paged_mma(float (&sums)[4], const uint4& a, std::uint32_t b0,
                                 std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Zero of minus infinity.
__device__ inline float power_of_two(float x) {
  float y = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline std::uint32_t two_bf16(float low, float high) {
  std::uint32_t both = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// Two neighbouring numbers of a query, as they are multiplied.
__device__ inline std::uint32_t scaled_queries(float2 numbers, float scale) {
  return two_bf16(__fmul_rn(numbers.x, scale), __fmul_rn(numbers.y, scale));
}

// cap * tanh(score / cap), where `cap` and scores are for powers of two.
__device__ inline float capped(float score, float cap, float inverse_cap) {
  // tanh(x) = 1 - 2 / (e^2x + 1)
  const float power = power_of_two(__fmul_rn(__fmul_rn(score, inverse_cap), 2.0F * kLog2E));
  const float tanh = __fsub_rn(1.0F, __fdividef(2.0F, __fadd_rn(power, 1.0F)));
  return __fmul_rn(cap, tanh);
}

__device__ inline float with_distance(float score, float slope, std::int32_t distance) {
  return __fmaf_rn(slope, static_cast<float>(distance), score);
}

// What scores are relative to: a row that has seen no key has no largest score.
__device__ inline float reference_of(float largest) {
  return largest == -INFINITY ? 0.0F : largest;
}

__device__ inline float weight_of(float score, float reference) {
  return power_of_two(__fsub_rn(score, reference));
}

// The sum of a row's four lanes.
__device__ inline float sum_of_quad(float sum) {
  sum = __fadd_rn(sum, __shfl_xor_sync(~0U, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(~0U, sum, 2));
}

__device__ inline float largest_of_quad(float score) {
  score = fmaxf(score, __shfl_xor_sync(~0U, score, 1));
  return fmaxf(score, __shfl_xor_sync(~0U, score, 2));
}

// The factors of two partial results that are joined.
struct PagedJoin {
  float before;
  float part;

  // Also makes `largest` that of both.
  __device__ static PagedJoin of(float& largest, float part_largest) {
    const float both = fmaxf(largest, part_largest);
    const float reference = reference_of(both);
    const PagedJoin factors = {weight_of(largest, reference), weight_of(part_largest, reference)};
    largest = both;
    return factors;
  }
  __device__ float operator()(float sum, float part_sum) const {
    return __fmaf_rn(sum, before, __fmul_rn(part_sum, part));
  }
};

// What a row's sums are multiplied by at last, so that the sum of the weights is one; with the sink
// of its head where `sinks` has them.
__device__ inline float final_factor(float largest, float total, const float* sinks,
                                     std::int32_t head) {
  if (sinks == nullptr) return __frcp_rn(total);
  const PagedJoin factors = PagedJoin::of(largest, __fmul_rn(sinks[head], kLog2E));
  return __fdiv_rn(factors.before, factors(total, 1.0F));
}

}  // namespace quire::cuda
