// How the numbers of the KV cache become vectors of floats, one reader for each type, and how a
// token's keys and values are written (kernels/kv_layout.h), over a vector type V.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/unroll.h"
#include "kernels/kv_layout.h"

namespace quire {

// A reader has
//   kGroup    numbers side by side in the cache: dimensions of a key, or values of tokens
//   kBytes    of a number
//   kPerLane  of these numbers that share a lane, as in the queries and in the weights, which they
//             are multiplied by; their products are added in one step
//   Panels    the reader of panels made of its values
//   load      kWidth neighbouring groups, of keys or of columns; x[i] is to be multiplied by lane i
//             of a group of the queries or the weights
//   kIntegers whether products are those of integers, which are added without rounding: queries and
//             weights are 16-bit integers times a step for each row (attention_integers.inl.h), and
//             scores and sums 32-bit ones
// and what FloatProducts has. Where two numbers share a lane
//   keep_one  the first or the second of each lane; in the place of the other zero, unless what it
//             is multiplied by is
template <class V>
struct F32Rows;

// Products of floats.
template <class V>
struct FloatProducts {
  using F = typename V::F;
  using Panels = F32Rows<V>;
  static constexpr int kPerLane = 1;
  static constexpr bool kIntegers = false;
  static F add_product(F a, F b, F sum) { return V::fma(a, b, sum); }
  // kWidth numbers of a query, or weights, from number `at` of its row on; as what they were
  // stored.
  static F store_factors(float* row, std::int64_t at, F x) {
    V::store(row + at, x);
    return x;
  }
};

template <class V>
struct F32Rows : FloatProducts<V> {
  using F = typename V::F;
  static constexpr int kGroup = 1;
  static constexpr int kBytes = 4;
  static void load(const std::byte* from, F (&x)[1]) {
    x[0] = V::load(reinterpret_cast<const float*>(from));
  }
};

template <class V>
struct Bf16Rows : FloatProducts<V> {
  using F = typename V::F;
  static constexpr int kGroup = 2;
  static constexpr int kBytes = 2;
  static void load(const std::byte* from, F (&x)[2]) { V::split_bf16(from, x[0], x[1]); }
};

template <class V>
struct Fp8Rows : FloatProducts<V> {
  using F = typename V::F;
  static constexpr int kGroup = 2;
  static constexpr int kBytes = 1;
  static void load(const std::byte* from, F (&x)[2]) { V::split_fp8(from, x[0], x[1]); }
};

// Panels of 16-bit numbers.
template <class V>
struct IntRows {
  using F = typename V::F;  // whose lanes are pairs of 16-bit integers, and sums of 32 bits
  using Panels = IntRows;
  static constexpr int kGroup = 2;
  static constexpr int kBytes = 2;
  static constexpr int kPerLane = 2;
  static constexpr bool kIntegers = true;
  static void load(const std::byte* from, F (&x)[1]) {
    x[0] = V::load(reinterpret_cast<const float*>(from));
  }
  static F keep_one(F x, int /*which*/) { return x; }
  static F add_product(F a, F b, F sum) { return V::add_pairs(a, b, sum); }
};

// An int8 cache, without its scales.
template <class V>
struct CodeRows : IntRows<V> {
  using F = typename V::F;
  static constexpr int kBytes = 1;
  static void load(const std::byte* from, F (&x)[1]) { x[0] = V::load_int8_as_int16(from); }
};

// The vectors that load() gives.
template <class Rows>
inline constexpr int kGroupVectors = Rows::kGroup / Rows::kPerLane;

// kWidth numbers in the cache's type.
template <class V>
inline void round_kv(typename V::F x, DType dtype, void* to) {
  switch (dtype) {
    case DType::kBF16:
      V::store_bf16(to, x);
      return;
    case DType::kF8E4M3:
      V::store_fp8(to, x);
      return;
    case DType::kI8:
      V::store_int8(to, x);
      return;
    default:
      V::store(static_cast<float*>(to), x);
  }
}

struct RowScale {
  float scale;    // of the codes; NaN where a number is not finite
  float inverse;  // 0: all codes are zero
};

// Of `count` numbers as integers: their largest magnitude becomes `most`, up to 2^15.
template <class V>
inline RowScale row_scale(const float* row, int count, float most) {
  using F = typename V::F;
  F largest = V::zero();
  F nan = V::zero();  // NaN in lanes that saw what is not finite
  for (int i = 0; i < count; i += V::kWidth) {
    const F x = count - i >= V::kWidth ? V::load(row + i) : V::load_first(row + i, count - i);
    largest = V::max(V::max(x, V::sub(V::zero(), x)), largest);
    nan = V::add(nan, V::sub(x, x));
  }
  const float amax = V::largest(largest);
  const float not_finite = V::sum(nan);
  if (not_finite != 0.0F) return {not_finite, 0.0F};
  // The inverse of anything smaller would overflow.
  if (amax < (most + 1.0F) * 0x1p-126F) return {0.0F, 0.0F};
  return {amax / most, most / amax};
}

// One head's key, or its value, in pieces of `piece` bytes, `step` bytes from one to the next.
template <class V>
inline void store_head(const float* head, const KvLayout& layout, int piece, std::int64_t step,
                       std::byte* to, std::byte* scale_to) {
  const int head_dim = layout.head_dim;
  const int row_dims = layout.row_dims();
  const auto bytes = static_cast<int>(dtype_bytes(layout.dtype));
  RowScale scale = {1.0F, 1.0F};
  if (layout.has_scales()) {
    scale = row_scale<V>(head, head_dim, 127.0F);
    __builtin_memcpy(scale_to, &scale.scale, sizeof(float));
  }
  alignas(64) std::byte rounded[V::kWidth * sizeof(float)];
  for (int i = 0; i < row_dims; i += V::kWidth) {
    const int rest = head_dim - i;
    typename V::F x =
        rest >= V::kWidth ? V::load(head + i) : V::load_first(head + i, rest > 0 ? rest : 0);
    if (layout.has_scales()) {
      x = scale.inverse == 0.0F ? V::zero() : V::mul(x, V::set1(scale.inverse));
    }
    round_kv<V>(x, layout.dtype, rounded);
    const int count = (row_dims - i < V::kWidth ? row_dims - i : V::kWidth) * bytes;
    if (step == piece) {
      __builtin_memcpy(to, rounded, static_cast<std::size_t>(count));
      to += count;
      continue;
    }
    for (int at = 0; at < count; at += piece, to += step) {
      if (piece == 4) {
        __builtin_memcpy(to, rounded + at, 4);
      } else if (piece == 2) {
        __builtin_memcpy(to, rounded + at, 2);
      } else {
        *to = rounded[at];
      }
    }
  }
}

template <class V>
inline void store_key(const float* head, const KvLayout& layout, BlockId block,
                      std::int32_t kv_head, std::int32_t slot, std::byte* kv) {
  const int piece = layout.key_group() * static_cast<int>(dtype_bytes(layout.dtype));
  store_head<V>(head, layout, piece, std::int64_t{layout.block_size} * piece,
                kv + layout.keys_offset(block, kv_head) + layout.key_element_offset(0, slot),
                kv + layout.key_scale_offset(block, kv_head, slot));
}

template <class V>
inline void store_value(const float* head, const KvLayout& layout, BlockId block,
                        std::int32_t kv_head, std::int32_t slot, std::byte* kv) {
  const auto piece = static_cast<int>(dtype_bytes(layout.dtype));
  store_head<V>(head, layout, piece, std::int64_t{layout.value_group()} * piece,
                kv + layout.values_offset(block, kv_head) + layout.value_element_offset(0, slot),
                kv + layout.value_scale_offset(block, kv_head, slot));
}

}  // namespace quire
