// Rounding input rows to bfloat16 (Bf16Rows), 16 at a time.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec_avx512.h"
#include "kernels/matmul_kernel.h"

namespace quire {
namespace {

inline void round_row_bf16(const float* x, std::int64_t inputs, std::uint16_t* out) {
  const std::int64_t end = (inputs + kBf16Line - 1) / kBf16Line * kBf16Line;
  for (std::int64_t k = 0; k < end; k += Vec16::kWidth) {
    const std::int64_t left = inputs - k;
    const __m512 values = left >= Vec16::kWidth ? Vec16::load(x + k)
                          : left > 0            ? Vec16::load_first(x + k, static_cast<int>(left))
                                                : Vec16::zero();
    Vec16::store_bf16(out + k, values);
  }
}

}  // namespace
}  // namespace quire
