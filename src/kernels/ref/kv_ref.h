// One number at a time of the KV cache (kernels/kv_layout.h), for the portable kernels and for
// tests.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/kv_layout.h"
#include "tensor/float_convert.h"

namespace quire {

template <typename T>
T load_bits(const std::byte* from) {
  T bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

// Without its scale.
inline float load_kv_number(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return bf16_to_float(load_bits<std::uint16_t>(from));
    case DType::kF8E4M3:
      return fp8_e4m3_to_float(load_bits<std::uint8_t>(from));
    case DType::kI8:
      return load_bits<std::int8_t>(from);
    default:
      return load_bits<float>(from);
  }
}

inline void store_kv_number(float value, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kBF16: {
      const std::uint16_t bits = float_to_bf16(value);
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kF8E4M3: {
      const std::uint8_t bits = float_to_fp8_e4m3(value);
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kI8: {
      const auto code = static_cast<std::int8_t>(std::nearbyint(value));
      std::memcpy(to, &code, sizeof(code));
      return;
    }
    default:
      std::memcpy(to, &value, sizeof(value));
  }
}

// How a head is rounded: number = scale * code. int8: the largest magnitude becomes 127.
struct KvRounding {
  float scale = 1.0F;    // NaN where a number is not finite
  float inverse = 1.0F;  // 0: all codes are zero
};

inline KvRounding kv_rounding(const float* head, const KvLayout& layout) {
  if (!layout.has_scales()) return {};
  float largest = 0.0F;
  for (std::int32_t i = 0; i < layout.head_dim; ++i) {
    if (!std::isfinite(head[i])) return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
    largest = std::fmax(largest, std::fabs(head[i]));
  }
  // The inverse of anything smaller would overflow.
  if (largest < 0x1p-119F) return {0.0F, 0.0F};
  return {largest / 127.0F, 127.0F / largest};
}

inline float load_key(const std::byte* kv, const KvLayout& layout, BlockId block,
                      std::int32_t kv_head, std::int32_t slot, std::int32_t dim) {
  const float number = load_kv_number(
      kv + layout.keys_offset(block, kv_head) + layout.key_element_offset(dim, slot), layout.dtype);
  if (!layout.has_scales()) return number;
  return number * load_bits<float>(kv + layout.key_scale_offset(block, kv_head, slot));
}

inline float load_value(const std::byte* kv, const KvLayout& layout, BlockId block,
                        std::int32_t kv_head, std::int32_t slot, std::int32_t dim) {
  if (!layout.has_values()) {
    return load_key(kv, layout, block, kv_head, slot, layout.head_dim - layout.latent_dims + dim);
  }
  const float number = load_kv_number(
      kv + layout.values_offset(block, kv_head) + layout.value_element_offset(dim, slot),
      layout.dtype);
  if (!layout.has_scales()) return number;
  return number * load_bits<float>(kv + layout.value_scale_offset(block, kv_head, slot));
}

// What stands for a dimension of a head; zero where rows are padded.
inline float kv_code(const float* head, const KvLayout& layout, const KvRounding& rounding,
                     std::int32_t dim) {
  if (dim >= layout.head_dim || rounding.inverse == 0.0F) return 0.0F;
  return head[dim] * rounding.inverse;
}

// A token's key of one head.
inline void store_key(const float* key, const KvLayout& layout, BlockId block, std::int32_t kv_head,
                      std::int32_t slot, std::byte* kv) {
  const KvRounding rounding = kv_rounding(key, layout);
  if (layout.has_scales()) {
    std::memcpy(kv + layout.key_scale_offset(block, kv_head, slot), &rounding.scale, sizeof(float));
  }
  std::byte* const to = kv + layout.keys_offset(block, kv_head);
  for (std::int32_t i = 0; i < layout.row_dims(); ++i) {
    store_kv_number(kv_code(key, layout, rounding, i), layout.dtype,
                    to + layout.key_element_offset(i, slot));
  }
}

// A token's value of one head.
inline void store_value(const float* value, const KvLayout& layout, BlockId block,
                        std::int32_t kv_head, std::int32_t slot, std::byte* kv) {
  const KvRounding rounding = kv_rounding(value, layout);
  if (layout.has_scales()) {
    std::memcpy(kv + layout.value_scale_offset(block, kv_head, slot), &rounding.scale,
                sizeof(float));
  }
  std::byte* const to = kv + layout.values_offset(block, kv_head);
  for (std::int32_t i = 0; i < layout.row_dims(); ++i) {
    store_kv_number(kv_code(value, layout, rounding, i), layout.dtype,
                    to + layout.value_element_offset(i, slot));
  }
}

}  // namespace quire
