// Reading quantized weights with integer codes (group_layout.h), and matrix products of them with
// float32 activations, written once for every layout and vector width.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/group_layout.h"

namespace quire {
namespace {

// As group_layout(); kernels are compiled for one layout with zero points, and serve those that
// differ in wider spans alone.
template <WeightLayout kLayout>
[[gnu::always_inline]] inline GroupLayout form_of(const MatmulPanels& args) {
  GroupLayout form = group_layout(kLayout);
  if constexpr (group_layout(kLayout).span == ScaleSpan::kZeroGroups) {
    form.span_shift = args.span_shift;
  }
  return form;
}

// One vector of outputs of one group: where it lies, and how its numbers are read.
template <typename V, WeightLayout kLayout>
struct GroupReader {
  static constexpr GroupLayout kForm = group_layout(kLayout);
  using F = typename V::F;
  using I = typename V::I;

  const std::uint8_t* codes;    // the vector's part of quad 0
  const std::uint8_t* factors;  // its first factor, of the group or of the row
  const std::uint8_t* scales;   // its first scale
  const std::uint8_t* zeros;    // its first zero point

  GroupReader() = default;
  [[gnu::always_inline]] GroupReader(const MatmulPanels& args, const std::uint8_t* panel,
                                     std::int64_t g, std::int64_t lane) {
    const GroupLayout form = form_of<kLayout>(args);
    const std::uint8_t* block = panel + form.block_offset(g);
    const std::uint8_t* group = block + form.group_offset(g);
    codes = group + 4 * lane;
    factors = group + kForm.code_bytes() + lane;
    zeros = nullptr;
    if constexpr (kForm.span == ScaleSpan::kZeroGroups) {
      factors = panel + 4 * lane;
      scales = block + form.scale_offset() + 2 * lane;
      zeros = panel + form.zeros_offset(g) + (kForm.code_bits == 8 ? 2 : 1) * lane;
    } else if constexpr (kForm.span == ScaleSpan::kRow) {
      scales = panel + 4 * lane;
    } else if constexpr (kForm.span == ScaleSpan::kHalfGroup) {
      scales = block + kForm.scale_offset() + 4 * lane;
    } else {
      scales = block + kForm.scale_offset() + 2 * lane;
    }
  }

  // The codes of quad 4 * half + u, four bytes in each lane: signed if eight bits, else unsigned.
  [[gnu::always_inline]] I quad(int half, int u) const {
    if constexpr (kForm.code_bits == 8) {
      return V::load_int(codes + 64 * (4 * half + u));
    } else {
      const I low = V::bit_and(V::shift_right_by(V::load_int(codes + 64 * u), 4 * half),
                               V::set1_int(0x0F0F0F0F));
      if constexpr (kForm.code_bits == 4) return low;
      I high;
      if constexpr (kForm.code_bits == 5) {
        high = V::bit_and(V::shift_right_by(V::load_int(codes + 256), 4 * half + u),
                          V::set1_int(0x01010101));
      } else {
        high = V::bit_and(V::shift_right_by(V::load_int(codes + 256 + 64 * half), 2 * u),
                          V::set1_int(0x03030303));
      }
      return V::bit_or(low, V::template shift_left<4>(high));
    }
  }

  // The same for a constant quad: shifts by immediates.
  template <int kQuad>
  [[gnu::always_inline]] I quad() const {
    if constexpr (kForm.code_bits == 8) return V::load_int(codes + 64 * kQuad);
    I low = V::load_int(codes + 64 * (kQuad % 4));
    if constexpr (kQuad >= 4) low = V::template shift_right<4>(low);
    low = V::bit_and(low, V::set1_int(0x0F0F0F0F));
    if constexpr (kForm.code_bits == 4) {
      return low;
    } else if constexpr (kForm.code_bits == 5) {
      const I line = V::load_int(codes + 256);
      return V::bit_or(low, V::bit_and(up_to_4<kQuad>(line), V::set1_int(0x10101010)));
    } else {
      const I line = V::load_int(codes + 256 + 64 * (kQuad / 4));
      return V::bit_or(low, V::bit_and(up_to_4<kQuad % 4 * 2>(line), V::set1_int(0x30303030)));
    }
  }

  // The weights of byte kByte of each lane's codes, in the very steps of decode_output().
  template <int kByte>
  [[gnu::always_inline]] static F weight(I codes, F scale, F minimum) {
    I code;
    if constexpr (kForm.code_bits == 8) {
      code = V::template shift_right_signed<24>(V::template shift_left<24 - 8 * kByte>(codes));
    } else {
      code = V::bit_and(V::template shift_right<8 * kByte>(codes), V::set1_int(0xFF));
    }
    if constexpr (kForm.zero != 0) code = V::add32(code, V::set1_int(-kForm.zero));
    const F product = V::mul(scale, V::to_float(code));
    if constexpr (kForm.has_minimum) return V::add(product, minimum);
    return product;
  }

  // The scale of the inputs of a half of the group; the product with a factor is exact.
  [[gnu::always_inline]] F scale(int half) const {
    if constexpr (kForm.span == ScaleSpan::kRow) {
      return V::load(reinterpret_cast<const float*>(scales));
    }
    if constexpr (kForm.span == ScaleSpan::kHalfGroup) {
      return V::load(reinterpret_cast<const float*>(scales + 64 * half));
    }
    const F scale = V::load_half(scales);
    if constexpr (kForm.span == ScaleSpan::kZeroGroups) {
      return V::mul(scale, V::load(reinterpret_cast<const float*>(factors)));
    } else if constexpr (kForm.factors == ScaleFactors::kGroup) {
      return V::mul(scale, V::load_bytes(factors));
    } else if constexpr (kForm.factors == ScaleFactors::kHalfGroup) {
      return V::mul(scale, V::to_float(V::load_signed_bytes(factors + 16 * half)));
    } else {
      return scale;
    }
  }
  // Of a half of the group, where each has one.
  [[gnu::always_inline]] F minimum(int half) const {
    if constexpr (kForm.span == ScaleSpan::kHalfGroup) {
      return V::load(reinterpret_cast<const float*>(scales + 128 + 64 * half));
    }
    if constexpr (kForm.span == ScaleSpan::kZeroGroups) {
      const F zero = kForm.code_bits == 8 ? V::load_half(zeros) : V::load_bytes(zeros);
      return V::mul(scale(0), V::sub(V::zero(), zero));
    }
    const F minimum = V::load_half(scales + 32);
    if constexpr (kForm.factors == ScaleFactors::kNone) {
      return minimum;
    } else {
      return V::mul(minimum, V::load_bytes(factors + 16));
    }
  }

 private:
  // Brings bit kFrom of each byte to bit 4, and the bits above with it.
  template <int kFrom>
  [[gnu::always_inline]] static I up_to_4(I x) {
    if constexpr (kFrom < 4) return V::template shift_left<4 - kFrom>(x);
    if constexpr (kFrom > 4) return V::template shift_right<kFrom - 4>(x);
    return x;
  }
};

// Of layouts with zero points.
[[gnu::always_inline]] inline void share_with_wider_spans(
    MatmulKernel (&kernels)[kNumWeightLayouts], WeightLayout smallest) {
  const auto first = static_cast<int>(smallest);
  const GroupLayout form = group_layout(smallest);
  const int fewer = form.code_bits == 4 ? 3 : 2;
  const int count = form.zeros_of_panel ? fewer : 4;
  for (int wider = first + 1; wider < first + count; ++wider) kernels[wider] = kernels[first];
}

// Whether an output has one scale, which integer products leave to the end: its sum is of integers
// times the scales of inputs.
template <WeightLayout kLayout>
inline constexpr bool kScaledAtEnd = group_layout(kLayout).span == ScaleSpan::kRow;

// Whether the halves of a group have minima of their own.
template <WeightLayout kLayout>
inline constexpr bool kHalvesHaveMinima =
    group_layout(kLayout).has_minimum&& group_layout(kLayout).span == ScaleSpan::kHalfGroup;

// Calls step<0>(), step<1>(), ... for a constant count.
template <int kCount, int kFrom = 0, typename Step>
[[gnu::always_inline]] inline void repeat(const Step& step) {
  if constexpr (kFrom < kCount) {
    step.template operator()<kFrom>();
    repeat<kCount, kFrom + 1>(step);
  }
}

// Quantized weights, float32 activations, few rows.
template <typename V, WeightLayout kLayout>
struct GroupFloatBlock {
  using Shape = typename V::DirectBlocks;
  using Reader = GroupReader<V, kLayout>;
  using F = typename V::F;
  using I = typename V::I;
  static constexpr GroupLayout kForm = Reader::kForm;

  template <int R, int N>
  static void run(const MatmulPanels& args, std::int64_t output) {
    const WeightStreams<V, N> streams(args, output);
    const float* x = args.x;
    F acc[R][N];
    clear<V>(acc);
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g, x += kGroupInputs) {
      Reader group[N];
      F scale[N];
      F minimum[N];
      QUIRE_UNROLL
      for (int n = 0; n < N; ++n) {
        group[n] = Reader(args, streams.panel[n], g, streams.lane[n]);
        minimum[n] = kForm.has_minimum ? group[n].minimum(0) : V::zero();
      }
      for (int half = 0; half < 2; ++half) {
        QUIRE_UNROLL
        for (int n = 0; n < N; ++n) {
          scale[n] = group[n].scale(half);
          if constexpr (kHalvesHaveMinima<kLayout>) minimum[n] = group[n].minimum(half);
        }
        for (int u = 0; u < 4; ++u) {
          I codes[N];
          QUIRE_UNROLL
          for (int n = 0; n < N; ++n) codes[n] = group[n].quad(half, u);
          repeat<4>([&]<int kByte>() __attribute__((always_inline)) {
            F weight[N];
            QUIRE_UNROLL
            for (int n = 0; n < N; ++n) {
              weight[n] = Reader::template weight<kByte>(codes[n], scale[n], minimum[n]);
            }
            multiply_add<V>(acc, weight, x + 16 * half + 4 * u + kByte, args.x_stride);
          });
        }
      }
    }
    store_block<V>(args, 0, output, acc);
  }
};

// Quantized weights as lines of 16 floats.
template <typename V, WeightLayout kLayout>
struct GroupLines {
  using Reader = GroupReader<V, kLayout>;
  using F = typename V::F;

  // Inputs [begin, end), whole groups, of a panel.
  static const float* expand(const MatmulPanels& args, const std::uint8_t* panel,
                             std::int64_t begin, std::int64_t end, float* lines) {
    for (std::int64_t lane = 0; lane < kPanelOutputs; lane += V::kWidth) {
      float* out = lines + lane;
      for (std::int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
        const Reader group(args, panel, g, lane);
        F minimum = Reader::kForm.has_minimum ? group.minimum(0) : V::zero();
        for (int half = 0; half < 2; ++half) {
          const F scale = group.scale(half);
          if constexpr (kHalvesHaveMinima<kLayout>) minimum = group.minimum(half);
          for (int u = 0; u < 4; ++u) {
            const typename V::I codes = group.quad(half, u);
            repeat<4>([&]<int kByte>() __attribute__((always_inline)) {
              V::store(out, Reader::template weight<kByte>(codes, scale, minimum));
              out += kPanelOutputs;
            });
          }
        }
      }
    }
    return lines;
  }
};

}  // namespace
}  // namespace quire
