// Weights of packed panels as floats, exactly as PackedWeight::decode_output() has them.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include "kernels/codebook_panel.h"
#include "kernels/cuda/products/block_quads.cuh"
#include "kernels/cuda/products/codebook_values.cuh"
#include "kernels/group_layout.h"
#include "kernels/packed_weight.h"

namespace quire::cuda {

// Panels of one layout, wherever they lie.
struct PanelForm {
  WeightLayout layout = WeightLayout::kF32;
  int span_shift = 0;  // GroupLayout's
  std::int64_t inputs = 0;
  std::int64_t panel_bytes = 0;
};

inline PanelForm panel_form(const PackedWeight& weight) {
  const WeightLayout layout = weight.layout();
  const bool has_groups = is_quantized(layout) && !is_codebook(layout) && !is_blocks(layout);
  return {.layout = layout,
          .span_shift = has_groups ? group_layout(layout).span_shift : 0,
          .inputs = weight.inputs(),
          .panel_bytes = static_cast<std::int64_t>(panel_bytes(layout, weight.inputs()))};
}

__device__ inline float half_at(const std::uint8_t* from) {
  return __half2float(*reinterpret_cast<const __half*>(from));
}

// FP8 e4m3 in steps of the smallest number, 2^-9.
__device__ inline float e4m3_steps(std::uint32_t code) {
  const std::uint32_t exponent = code >> 3 & 15;
  const std::uint32_t mantissa = code & 7;
  const std::uint32_t magnitude = exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
  const float steps = static_cast<float>(magnitude);
  return (code & 0x80) != 0 ? -steps : steps;
}

// What a weight is made of: scale * code + minimum.
struct ScaleAndMinimum {
  float scale = 0.0F;
  float minimum = 0.0F;
};

template <WeightLayout kLayout>
__device__ ScaleAndMinimum scale_and_minimum(GroupLayout form, const std::uint8_t* panel,
                                             std::int64_t group, int half, int n) {
  constexpr GroupLayout kForm = group_layout(kLayout);
  const std::uint8_t* block = panel + form.block_offset(group);
  const std::uint8_t* scales = block + form.scale_offset();
  const std::uint8_t* minima = block + form.minimum_offset();
  if constexpr (kForm.span == ScaleSpan::kHalfGroup) {
    scales += 64 * half + 4 * n;
    return {float_at(scales), kForm.has_minimum ? float_at(scales + 128) : 0.0F};
  }
  ScaleAndMinimum result;
  if constexpr (kForm.span == ScaleSpan::kRow) {
    result.scale = float_at(panel + 4 * n);
  } else if constexpr (kForm.span == ScaleSpan::kPanelBlocks) {
    result.scale = float_at(block);
  } else if constexpr (kForm.span == ScaleSpan::kZeroGroups) {
    result.scale = float_at(panel + 4 * n) * half_at(scales + 2 * n);
    const std::uint8_t* zeros = panel + form.zeros_offset(group);
    const float zero = kForm.code_bits == 4 ? static_cast<float>(zeros[n]) : half_at(zeros + 2 * n);
    result.minimum = -result.scale * zero;
  } else {
    result.scale = half_at(scales + 2 * n);
    if constexpr (kForm.has_minimum) result.minimum = half_at(minima + 2 * n);
  }
  if constexpr (kForm.float_codes) result.scale *= 0x1.0p-9F;
  const std::uint8_t* factors = block + form.group_offset(group) + form.code_bytes() + n;
  if constexpr (kForm.factors == ScaleFactors::kGroup) {
    result.scale *= static_cast<float>(factors[0]);
    result.minimum *= static_cast<float>(factors[16]);
  } else if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
    result.scale *= static_cast<float>(static_cast<std::int8_t>(factors[16 * half]));
  }
  return result;
}

// The nibbles of quad `quad` of a group, one a byte.
__device__ inline std::uint32_t quad_nibbles(const std::uint8_t* codes, int quad, int n) {
  const auto line = *reinterpret_cast<const std::uint32_t*>(codes + quad % 4 * 64 + 4 * n);
  return line >> (quad / 4 * 4) & 0x0F0F0F0FU;
}

// Inputs 4 quad to 4 quad + 3 of a group.
template <WeightLayout kLayout>
__device__ float4 group_quad(int span_shift, const std::uint8_t* panel, std::int64_t group,
                             int quad, int n) {
  constexpr GroupLayout kForm = group_layout(kLayout);
  GroupLayout form = kForm;
  form.span_shift = span_shift;
  const std::uint8_t* codes = panel + form.block_offset(group) + form.group_offset(group);
  float code[4];
  if constexpr (kForm.float_codes) {
    for (int pair = 0; pair < 2; ++pair) {
      const auto two =
          *reinterpret_cast<const std::uint16_t*>(codes + (2 * quad + pair) * 32 + 2 * n);
      code[2 * pair] = e4m3_steps(two & 255U);
      code[2 * pair + 1] = e4m3_steps(two >> 8U);
    }
  } else if constexpr (kForm.code_bits == 8) {
    const auto four = *reinterpret_cast<const char4*>(codes + quad * 64 + 4 * n);
    code[0] = four.x;
    code[1] = four.y;
    code[2] = four.z;
    code[3] = four.w;
  } else {
    std::uint32_t four = quad_nibbles(codes, quad, n);
    if constexpr (kForm.code_bits == 5) {
      const auto high = *reinterpret_cast<const std::uint32_t*>(codes + 256 + 4 * n);
      four |= (high >> quad & 0x01010101U) << 4;
    } else if constexpr (kForm.code_bits == 6) {
      const auto high =
          *reinterpret_cast<const std::uint32_t*>(codes + 256 + quad / 4 * 64 + 4 * n);
      four |= (high >> (quad % 4 * 2) & 0x03030303U) << 4;
    }
    for (int i = 0; i < 4; ++i) {
      code[i] = static_cast<float>(static_cast<int>(four >> 8 * i & 255U) - kForm.zero);
    }
  }
  // The product is exact wherever there is a minimum, so that fma rounds as two operations do.
  const ScaleAndMinimum of = scale_and_minimum<kLayout>(form, panel, group, quad / 4, n);
  return {fmaf(of.scale, code[0], of.minimum), fmaf(of.scale, code[1], of.minimum),
          fmaf(of.scale, code[2], of.minimum), fmaf(of.scale, code[3], of.minimum)};
}

// Of any codebook.
__device__ inline float4 codebook_quad(const PanelForm& form, const std::uint8_t* panel,
                                       std::int64_t group, int quad, int n) {
  const CodebookPanel book = CodebookPanel::of(form.layout);
  const float* table = kCodebookValues[static_cast<int>(codebook_of(form.layout))];
  const float scale = codebook_scale(book, panel, form.inputs, group, n);
  const std::uint32_t codes = quad_nibbles(panel + book.codes_offset(group), quad, n);
  return {scale * table[codes & 15U], scale * table[codes >> 8 & 15U],
          scale * table[codes >> 16 & 15U], scale * table[codes >> 24]};
}

// Dense weights of an output as they lie, for inputs k to k + 3, zeros beyond the last: whoever
// loads them waits for them only when he asks for the floats. Of bfloat16 they are pairs, which a
// panel has whole.
template <WeightLayout kLayout>
struct DenseQuad {
  static constexpr int kWords = kLayout == WeightLayout::kBF16 ? 2 : 4;
  static constexpr int kWordInputs = 4 / kWords;
  std::uint32_t words[kWords];

  __device__ void load(const std::uint8_t* panel, std::int64_t inputs, std::int64_t k, int n) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = 0;
      if (k + kWordInputs * i < inputs) load_word(panel, k, n, i);
    }
  }
  // The panel has them all.
  __device__ void load_whole(const std::uint8_t* panel, std::int64_t k, int n) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) load_word(panel, k, n, i);
  }

  __device__ float4 floats() const {
    if constexpr (kLayout == WeightLayout::kBF16) {
      return {__uint_as_float(words[0] << 16), __uint_as_float(words[0] & 0xFFFF0000U),
              __uint_as_float(words[1] << 16), __uint_as_float(words[1] & 0xFFFF0000U)};
    } else if constexpr (kLayout == WeightLayout::kF16) {
      return {half(words[0]), half(words[1]), half(words[2]), half(words[3])};
    } else {
      return {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
              __uint_as_float(words[3])};
    }
  }

 private:
  __device__ void load_word(const std::uint8_t* panel, std::int64_t k, int n, int i) {
    const std::int64_t at = (k / kWordInputs + i) * kPanelOutputs + n;
    if constexpr (kLayout == WeightLayout::kF16) {
      words[i] = *reinterpret_cast<const std::uint16_t*>(panel + 2 * at);
    } else {
      words[i] = *reinterpret_cast<const std::uint32_t*>(panel + 4 * at);
    }
  }
  __device__ static float half(std::uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
  }
};

// The weights of output n of a panel for inputs k to k + 4 kCount - 1, with k a multiple of 4; in
// the order of the panel, zeros beyond the last. All of them are asked for before one is waited
// for.
template <int kCount>
__device__ void decode_quads(const PanelForm& form, const std::uint8_t* panel, std::int64_t k,
                             int n, float4 (&quads)[kCount]) {
  const auto dense = [&]<WeightLayout kLayout>() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      DenseQuad<kLayout> quad;
      quad.load(panel, form.inputs, k + 4 * i, n);
      quads[i] = quad.floats();
    }
  };
  const auto decode = [&]<WeightLayout kLayout>() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t first = k + 4 * i;
      quads[i] = {};
      if (first >= form.inputs) continue;
      const std::int64_t group = first / kGroupInputs;
      const int quad = static_cast<int>(first % kGroupInputs) / 4;
      if constexpr (is_blocks(kLayout)) {
        quads[i] = any_block_quad(form.layout, panel, group, quad, n);
      } else if constexpr (is_codebook(kLayout)) {
        quads[i] = codebook_quad(form, panel, group, quad, n);
      } else {
        quads[i] = group_quad<kLayout>(form.span_shift, panel, group, quad, n);
      }
    }
  };
  switch (form.layout) {
    case WeightLayout::kF32:
      return dense.template operator()<WeightLayout::kF32>();
    case WeightLayout::kF16:
      return dense.template operator()<WeightLayout::kF16>();
    case WeightLayout::kBF16:
      return dense.template operator()<WeightLayout::kBF16>();
    case WeightLayout::kInt8:
      return decode.template operator()<WeightLayout::kInt8>();
    case WeightLayout::kInt4:
      return decode.template operator()<WeightLayout::kInt4>();
    case WeightLayout::kInt5:
      return decode.template operator()<WeightLayout::kInt5>();
    case WeightLayout::kUint4:
      return decode.template operator()<WeightLayout::kUint4>();
    case WeightLayout::kUint5:
      return decode.template operator()<WeightLayout::kUint5>();
    case WeightLayout::kUint4Super:
      return decode.template operator()<WeightLayout::kUint4Super>();
    case WeightLayout::kUint5Super:
      return decode.template operator()<WeightLayout::kUint5Super>();
    case WeightLayout::kInt6Super:
      return decode.template operator()<WeightLayout::kInt6Super>();
    case WeightLayout::kInt8Row:
      return decode.template operator()<WeightLayout::kInt8Row>();
    case WeightLayout::kInt4Group128:
      return decode.template operator()<WeightLayout::kInt4Group128>();
    case WeightLayout::kUint4Zero32:
    case WeightLayout::kUint4Zero64:
    case WeightLayout::kUint4Zero128:
    case WeightLayout::kUint4ZeroRow:
      return decode.template operator()<WeightLayout::kUint4ZeroRow>();
    case WeightLayout::kUint4Scale32:
    case WeightLayout::kUint4Scale64:
    case WeightLayout::kUint4Scale128:
      return decode.template operator()<WeightLayout::kUint4Scale128>();
    case WeightLayout::kInt8Zero32:
    case WeightLayout::kInt8Zero64:
    case WeightLayout::kInt8Zero128:
    case WeightLayout::kInt8ZeroRow:
      return decode.template operator()<WeightLayout::kInt8ZeroRow>();
    case WeightLayout::kInt8Scale32:
    case WeightLayout::kInt8Scale64:
      return decode.template operator()<WeightLayout::kInt8Scale64>();
    case WeightLayout::kF8Row:
      return decode.template operator()<WeightLayout::kF8Row>();
    case WeightLayout::kF8Block128:
      return decode.template operator()<WeightLayout::kF8Block128>();
    case WeightLayout::kInt8Halves:
      return decode.template operator()<WeightLayout::kInt8Halves>();
    case WeightLayout::kInt8HalvesMinimum:
      return decode.template operator()<WeightLayout::kInt8HalvesMinimum>();
    default:  // any codebook, any compact one
      if (is_blocks(form.layout)) return decode.template operator()<kFirstBlocks>();
      return decode.template operator()<WeightLayout::kNF4Span64>();
  }
}

// Kernels that know the layout of what they mostly multiply have loads on their way while they
// compute.
enum class WeightKind : std::uint8_t { kF32, kBF16, kAny };

inline WeightKind weight_kind(WeightLayout layout) {
  if (layout == WeightLayout::kF32) return WeightKind::kF32;
  return layout == WeightLayout::kBF16 ? WeightKind::kBF16 : WeightKind::kAny;
}

// Weights of output n for inputs k to k + 4 kCount - 1, which load() need not wait for.
template <WeightKind kKind, int kCount>
class QuadsAhead {
 public:
  __device__ void load(const PanelForm& form, const std::uint8_t* panel, std::int64_t k, int n) {
    if constexpr (kKind == WeightKind::kAny) {
      decode_quads(form, panel, k, n, quads_);
    } else if (k + 4 * kCount <= form.inputs) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) quads_[i].load_whole(panel, k + 4 * i, n);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) quads_[i].load(panel, form.inputs, k + 4 * i, n);
    }
  }
  __device__ float4 floats(int i) const {
    if constexpr (kKind == WeightKind::kAny) {
      return quads_[i];
    } else {
      return quads_[i].floats();
    }
  }

 private:
  static constexpr WeightLayout kLayout =
      kKind == WeightKind::kF32 ? WeightLayout::kF32 : WeightLayout::kBF16;
  std::conditional_t<kKind == WeightKind::kAny, float4, DenseQuad<kLayout>> quads_[kCount];
};

}  // namespace quire::cuda
