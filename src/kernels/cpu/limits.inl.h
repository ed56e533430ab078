// Measuring loops over a vector type V (vec_avx2.h, vec_avx512.h) and over chains of any
// instruction.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/unroll.h"
#include "kernels/limit_kernels.h"

namespace quire {
namespace {

template <class V>
inline float vec_read(const float* data, std::int64_t count) {
  constexpr int kLoads = 64 / V::kWidth;
  typename V::F sums[kLoads];
  QUIRE_UNROLL
  for (int i = 0; i < kLoads; ++i) sums[i] = V::zero();
  for (std::int64_t at = 0; at < count; at += 64) {
    QUIRE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      sums[i] = V::add(sums[i], V::load(data + at + i * V::kWidth));
    }
  }
  float sum = 0.0F;
  for (const auto& lanes : sums) sum += V::sum(lanes);
  return sum;
}

// Enough chains to hide a latency of six cycles at two operations a cycle.
inline constexpr int kPeakChains = 12;

// An Op is one instruction whose result is its first operand, the next time: `Vector first(chain)`,
// `Vector next(Vector)`, `float sum(Vector)`, and kOperations of one next().
template <class Op, int kChains>
inline float run_chains(std::int64_t rounds) {
  Op op;
  typename Op::Vector chains[kChains];
  QUIRE_UNROLL
  for (int i = 0; i < kChains; ++i) chains[i] = op.first(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
    QUIRE_UNROLL
    for (auto& lanes : chains) lanes = op.next(lanes);
  }
  float sum = 0.0F;
  for (const auto& lanes : chains) sum += Op::sum(lanes);
  return sum;
}

template <class Op, int kChains = kPeakChains>
PeakKernel chains_of() {
  return {run_chains<Op, kChains>, kChains * Op::kOperations};
}

// x <- x / 2 + 1, which tends to 2.
template <class V>
struct MultiplyAddOp {
  using Vector = typename V::F;
  static constexpr std::int64_t kOperations = std::int64_t{2} * V::kWidth;
  Vector half = V::set1(0.5F);
  Vector one = V::set1(1.0F);

  static Vector first(int chain) { return V::set1(static_cast<float>(chain)); }
  Vector next(Vector x) const { return V::fma(x, half, one); }
  static float sum(Vector x) { return V::sum(x); }
};

template <class V>
inline void set_vec_limits(LimitKernels& kernels) {
  kernels.read = vec_read<V>;
  kernels.peak(PeakKind::kF32) = chains_of<MultiplyAddOp<V>>();
}

}  // namespace
}  // namespace quire
