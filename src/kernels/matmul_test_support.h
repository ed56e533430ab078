// Random checkpoint matrices of every encoding, for tests and benchmarks of matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "kernels/group_layout.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/packed_group.h"
#include "kernels/packed_weight.h"
#include "quant/codebook_groups.h"
#include "quant/hqq_block.h"
#include "quant/zero_groups.h"
#include "tensor/float_convert.h"

namespace quire {

inline constexpr Encoding kAllEncodings[] = {
    Encoding::kF8Row,        Encoding::kF8Block128,    Encoding::kNF4Span64,
    Encoding::kNF4Span128,   Encoding::kNF4Span256,    Encoding::kNF4Nested64,
    Encoding::kNF4Nested128, Encoding::kNF4Nested256,  Encoding::kFP4Span64,
    Encoding::kFP4Span128,   Encoding::kFP4Span256,    Encoding::kFP4Nested64,
    Encoding::kFP4Nested128, Encoding::kFP4Nested256,  Encoding::kF32,
    Encoding::kF16,          Encoding::kBF16,          Encoding::kQ8_0,
    Encoding::kQ4_0,         Encoding::kQ4_1,          Encoding::kQ5_0,
    Encoding::kQ5_1,         Encoding::kQ4_K,          Encoding::kQ5_K,
    Encoding::kQ6_K,         Encoding::kUint4Zero32,   Encoding::kUint4Zero64,
    Encoding::kUint4Zero128, Encoding::kUint4ZeroRow,  Encoding::kUint4Scale32,
    Encoding::kUint4Scale64, Encoding::kUint4Scale128, Encoding::kInt8Scale32,
    Encoding::kInt8Scale64,  Encoding::kInt8Zero32,    Encoding::kInt8Zero64,
    Encoding::kInt8Zero128,  Encoding::kInt8ZeroRow,   Encoding::kInt8Row,
    Encoding::kQ2_K,         Encoding::kQ3_K,          Encoding::kQ8_K,
    Encoding::kIQ4_NL,       Encoding::kIQ4_XS,        Encoding::kMXFP4,
    Encoding::kNVFP4,        Encoding::kIQ2_XXS,       Encoding::kIQ2_XS,
    Encoding::kIQ2_S,        Encoding::kIQ3_XXS,       Encoding::kIQ3_S,
    Encoding::kIQ1_S,        Encoding::kIQ1_M,         Encoding::kTQ1_0,
    Encoding::kTQ2_0,        Encoding::kNVFP4Scaled,   Encoding::kHqq2Span32,
    Encoding::kHqq2Span64,   Encoding::kHqq2Span128,   Encoding::kHqq2Span256,
    Encoding::kHqq3Span32,   Encoding::kHqq3Span64,    Encoding::kHqq3Span128,
    Encoding::kHqq4Span32,   Encoding::kHqq4Span64,    Encoding::kHqq4Span128,
    Encoding::kHqq4Span256,  Encoding::kHqq8Span32,    Encoding::kHqq8Span64,
    Encoding::kHqq8Span128,  Encoding::kGptq2Span32,   Encoding::kGptq2Span64,
    Encoding::kGptq2Span128, Encoding::kGptq2Span256,  Encoding::kGptq3Span32,
    Encoding::kGptq3Span64,  Encoding::kGptq3Span128,  Encoding::kGptq3Span256};
// All but those of parts of tensors.
static_assert(std::size(kAllEncodings) == kNumEncodings - 5);
// Those with integer codes.
inline constexpr std::span<const Encoding> kQuantizedEncodings =
    std::span(kAllEncodings).subspan<17>();

// A matrix as a checkpoint would store it; weights are roughly normal with deviation 1/sqrt(cols).
struct TestMatrix {
  Encoding encoding;
  std::int64_t rows;
  std::int64_t cols;
  std::vector<std::uint8_t> data;

  TestMatrix(Encoding e, std::int64_t r, std::int64_t c, unsigned seed)
      : encoding(e), rows(r), cols(c) {
    std::mt19937 random(seed);
    const EncodingTraits& traits = encoding_traits(encoding);
    data.resize(static_cast<std::size_t>(rows) * encoded_row_bytes(encoding, cols).value());
    // Blocks: every code is likely, and scales of both signs.
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    const float deviation = 1.0F / std::sqrt(static_cast<float>(cols));
    std::normal_distribution<float> normal(0.0F, deviation);
    if (is_zero_groups(encoding)) {
      put_zero_groups(random);
      return;
    }
    if (is_codebook(encoding)) {
      put_codebook(random);
      return;
    }
    if (encoding == Encoding::kF8Row || encoding == Encoding::kF8Block128) {
      put_floats(random);
      return;
    }
    if (encoding == Encoding::kInt8Row) {
      const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
      for (std::size_t row = 0; row < data.size(); row += row_bytes) {
        const float scale = normal(random) / 100.0F;
        std::memcpy(&data[row], &scale, sizeof(scale));
      }
      return;
    }
    if (encoding == Encoding::kNVFP4Scaled) {
      put_scaled(random);
      return;
    }
    if (is_hqq(encoding)) {
      put_hqq(random);
      return;
    }
    const auto step = static_cast<std::size_t>(traits.block_bytes);
    for (std::size_t at = 0; at < data.size(); at += step) {
      const float value = normal(random);
      switch (encoding) {
        case Encoding::kF32:
          std::memcpy(&data[at], &value, sizeof(value));
          break;
        case Encoding::kBF16:
          put(at, float_to_bf16(value));
          break;
        case Encoding::kF16:
          put(at, float_to_f16(value));
          break;
        case Encoding::kQ8_0:
          put(at, float_to_f16(value / 100.0F));
          break;
        case Encoding::kQ4_0:
          put(at, float_to_f16(value / 8.0F));
          break;
        case Encoding::kQ5_0:
          put(at, float_to_f16(value / 16.0F));
          break;
        case Encoding::kQ4_1:
          put(at, float_to_f16(value / 8.0F));
          put(at + 2, float_to_f16(normal(random)));
          break;
        case Encoding::kQ5_1:
          put(at, float_to_f16(value / 16.0F));
          put(at + 2, float_to_f16(normal(random)));
          break;
        case Encoding::kQ4_K:
        case Encoding::kQ5_K:
          put(at, float_to_f16(value / 8.0F / 32.0F));
          put(at + 2, float_to_f16(normal(random) / 32.0F));
          break;
        case Encoding::kQ6_K:
          put(at + 208, float_to_f16(value / 16.0F / 64.0F));
          break;
        case Encoding::kQ2_K:
          put(at + 80, float_to_f16(value / 16.0F));
          put(at + 82, float_to_f16(normal(random) / 16.0F));
          break;
        case Encoding::kQ3_K:
          put(at + 108, float_to_f16(value / 64.0F));
          break;
        case Encoding::kQ8_K: {
          const float scale = value / 100.0F;
          std::memcpy(&data[at], &scale, sizeof(scale));
          break;
        }
        case Encoding::kIQ4_NL:
          put(at, float_to_f16(value / 100.0F));
          break;
        case Encoding::kIQ4_XS:
          put(at, float_to_f16(value / 100.0F / 16.0F));
          break;
        case Encoding::kIQ2_XXS:
        case Encoding::kIQ2_XS:
        case Encoding::kIQ2_S:
        case Encoding::kIQ3_XXS:
          put(at, float_to_f16(value / 64.0F));
          break;
        case Encoding::kIQ3_S:
          put(at, float_to_f16(value / 128.0F));
          break;
        case Encoding::kIQ1_S:
          put(at, float_to_f16(value / 8.0F));
          break;
        case Encoding::kIQ1_M: {
          const std::uint16_t scale = float_to_f16(value / 8.0F);
          for (std::size_t i = 0; i < 4; ++i) {
            std::uint8_t& top = data[at + 49 + 2 * i];
            top = static_cast<std::uint8_t>((top & 15) | (scale >> (4 * i) & 15) << 4);
          }
          break;
        }
        case Encoding::kTQ1_0:
          put(at + 52, float_to_f16(value));
          break;
        case Encoding::kTQ2_0:
          put(at + 64, float_to_f16(value));
          break;
        case Encoding::kMXFP4:  // 2^-11 to 2^-8, times the table's values
          data[at] = static_cast<std::uint8_t>(117 + random() % 4);
          break;
        case Encoding::kNVFP4:  // any scale of the smaller ones
          for (std::size_t i = 0; i < 4; ++i) data[at + i] &= 0x1F;
          break;
        default:
          break;
      }
    }
  }

  EncodedMatrix view() const { return {encoding, rows, cols, data.data()}; }

  // All weights as floats, [rows][cols].
  std::vector<float> decode() const {
    std::vector<float> weights(static_cast<std::size_t>(rows * cols));
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      decode_row(encoding, data.data() + static_cast<std::size_t>(r) * row_bytes, cols,
                 weights.data() + r * cols);
    }
    return weights;
  }

 private:
  // Every e4m3 but NaN; in blocks the same scales for all rows.
  void put_floats(std::mt19937& random) {
    for (std::uint8_t& byte : data) {
      if ((byte & 0x7F) == 0x7F) byte = 0x11;
    }
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t step = encoding == Encoding::kF8Row ? row_bytes : 132;
    for (std::size_t at = 0; at < row_bytes; at += step) {
      float scale = normal(random) / 100.0F;
      for (std::size_t row = 0; row < data.size(); row += row_bytes) {
        if (encoding == Encoding::kF8Row) scale = normal(random) / 100.0F;
        std::memcpy(&data[row + at], &scale, sizeof(scale));
      }
    }
  }

  // Any scale of the smaller ones, divided by a number of each row's own.
  void put_scaled(std::mt19937& random) {
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    for (std::size_t row = 0; row < data.size(); row += row_bytes) {
      const float divisor = 1.0F + static_cast<float>(random() % 1000) / 300.0F;
      std::memcpy(&data[row], &divisor, sizeof(divisor));
      for (std::size_t at = row + 4; at < row + row_bytes; at += 36) {
        for (std::size_t i = 0; i < 4; ++i) data[at + i] &= 0x1F;
      }
    }
  }

  // Every code is likely; zero points are somewhere among the codes.
  void put_hqq(std::mt19937& random) {
    const HqqForm form = hqq_form(encoding);
    const auto codes = static_cast<float>(1 << form.bits);
    std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    const auto block = static_cast<std::size_t>(encoding_traits(encoding).block_bytes);
    for (std::size_t row = 0; row < data.size(); row += row_bytes) {
      const float divisor = random() % 2 == 0 ? 1.0F : 0x1p4F;
      std::memcpy(&data[row], &divisor, sizeof(divisor));
      for (std::size_t at = row + 4; at < row + row_bytes; at += block) {
        for (std::size_t span = 0; span < static_cast<std::size_t>(form.spans); ++span) {
          put(at + 2 * span, float_to_f16(normal(random) * 2.0F / codes * divisor));
        }
        if (form.whole_zeros) {
          const auto zero = [&] { return random() % ((1U << form.bits) + 1); };
          data[at + 2 * static_cast<std::size_t>(form.spans)] =
              static_cast<std::uint8_t>(zero() | zero() << 4U);
        } else {
          put(at + 2, float_to_f16(codes * static_cast<float>(random() % 1000) / 1000.0F));
        }
      }
    }
  }

  // Every code is likely; nested rows follow each other from anywhere in runs of any length.
  void put_codebook(std::mt19937& random) {
    const CodebookGroups form = codebook_groups(encoding);
    std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    const auto put_float = [&](std::size_t at, float value) {
      std::memcpy(&data[at], &value, sizeof(value));
    };
    for (std::size_t row = 0; row < data.size(); row += row_bytes) {
      for (std::int64_t g = 0; !form.nested && g < cols / kGroupSize; ++g) {
        put_float(row + static_cast<std::size_t>(form.span_offset(cols, g)), normal(random));
      }
    }
    if (!form.nested) return;
    const auto shift = static_cast<int>(random() % 3);
    const auto run = static_cast<unsigned>(kMinNestedRun << shift);
    const auto first = NestedPlace::of(static_cast<std::int64_t>(random() % run), shift);
    const float offset = normal(random);
    const std::int64_t row_spans = cols / kGroupSize >> form.span_shift;
    std::vector<float> units(
        static_cast<std::size_t>(first.unit_of(rows * row_spans) + nested_units(cols)));
    for (float& unit : units) unit = normal(random);
    for (std::int64_t n = 0; n < rows; ++n) {
      const std::size_t row = static_cast<std::size_t>(n) * row_bytes;
      const NestedPlace place = first.after(n * row_spans);
      put_float(row, offset);
      std::memcpy(&data[row + 4], &place.bits, sizeof(place.bits));
      const std::int64_t begin = first.unit_of(n * row_spans);
      std::memcpy(&data[row + 8], &units[static_cast<std::size_t>(begin)],
                  static_cast<std::size_t>(4 * nested_units(cols)));
    }
  }

  // Every code is likely; zero points from one end of the codes to the other.
  void put_zero_groups(std::mt19937& random) {
    const ZeroGroups form = zero_groups(encoding);
    const float codes = form.code_bits == 4 ? 8.0F : 128.0F;
    std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t row_bytes = data.size() / static_cast<std::size_t>(rows);
    for (std::size_t row = 0; row < data.size(); row += row_bytes) {
      const float factor = random() % 2 == 0 ? 1.0F : 0x1p-4F;
      std::memcpy(&data[row], &factor, sizeof(factor));
      for (std::int64_t g = 0; g < cols / kGroupSize; ++g) {
        const std::size_t at = row + static_cast<std::size_t>(form.span_offset(g));
        put(at, float_to_f16(normal(random) / codes / factor));
        const auto zero = static_cast<int>(random() % 17);
        const std::size_t zero_at = row + static_cast<std::size_t>(form.zero_offset(g));
        if (form.code_bits == 4) data[zero_at] = static_cast<std::uint8_t>(zero);
        if (form.code_bits == 8) put(zero_at, float_to_f16(static_cast<float>(zero * 16 - 128)));
      }
    }
  }

  void put(std::size_t at, std::uint16_t bits) { std::memcpy(&data[at], &bits, sizeof(bits)); }
};

// Whether products of such weights round their inputs to bfloat16, unless the mode is kFloat32.
inline bool rounds_to_bf16(IsaLevel level, Encoding encoding) {
  const auto layout = static_cast<int>(product_layout(layout_of(encoding)));
  return op_table(level).matmul.with_bf16[layout] != nullptr;
}

// The mode in which products of such weights see their inputs at a level: weights of eight bits
// have 16-bit inputs where there is no dot product of bytes, and 8-bit ones where there is.
inline ActivationMode mode_at(IsaLevel level, WeightLayout layout, ActivationMode mode) {
  if (mode == ActivationMode::kFloat32 || (has_float_codes(layout) && !is_codebook(layout))) {
    return ActivationMode::kFloat32;
  }
  const auto index = static_cast<int>(product_layout(layout));
  const bool has_int8 = op_table(level).matmul.with_int8[index] != nullptr;
  if (!has_int8) return ActivationMode::kInt16;
  return group_layout(layout).code_bits == 8 ? ActivationMode::kInt8 : mode;
}

inline PackedWeight pack_or_die(ThreadPool& pool, const TestMatrix& matrix) {
  const EncodedMatrix view = matrix.view();
  return std::move(PackedWeight::pack(pool, &view, 1)).value();
}

// All weights as products see them, [rows][cols]: with rounded inputs codes of a table stand for
// integers.
inline std::vector<float> seen_weights(const TestMatrix& matrix, const PackedWeight& weight,
                                       ActivationMode mode) {
  std::vector<float> weights = matrix.decode();
  if (!is_codebook(weight.layout()) || mode == ActivationMode::kFloat32) return weights;
  for (std::int64_t n = 0; n < matrix.rows; ++n) {
    for (std::int64_t k = 0; k < matrix.cols; ++k) {
      const PackedGroup group =
          read_codebook_integers(weight.layout(), weight.panel(n / kPanelOutputs), matrix.cols,
                                 k / kGroupInputs, n % kPanelOutputs);
      weights[static_cast<std::size_t>(n * matrix.cols + k)] =
          group.scales[0] * static_cast<float>(group.codes[k % kGroupInputs]);
    }
  }
  return weights;
}

}  // namespace quire
