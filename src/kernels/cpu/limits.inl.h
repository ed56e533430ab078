// Measuring loops over a vector type V (vec_avx2.h, vec_avx512.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/unroll.h"
#include "kernels/limit_kernels.h"

namespace quire {

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
inline constexpr int kMultiplyAddChains = 12;

template <class V>
inline float vec_multiply_add(std::int64_t rounds) {
  const typename V::F half = V::set1(0.5F);
  const typename V::F one = V::set1(1.0F);
  typename V::F sums[kMultiplyAddChains];
  QUIRE_UNROLL
  for (int i = 0; i < kMultiplyAddChains; ++i) sums[i] = V::set1(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
    QUIRE_UNROLL
    for (auto& lanes : sums) lanes = V::fma(lanes, half, one);
  }
  float sum = 0.0F;
  for (const auto& lanes : sums) sum += V::sum(lanes);
  return sum;
}

template <class V>
inline void set_vec_limits(LimitKernels& kernels) {
  kernels.read = vec_read<V>;
  kernels.multiply_add = vec_multiply_add<V>;
  kernels.operations_per_round = std::int64_t{2} * kMultiplyAddChains * V::kWidth;
}

}  // namespace quire
