#include "kernels/ref/matmul_ref.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/packed_group.h"
#include "kernels/ref/expand_ref.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

std::uint16_t load_u16(const std::uint8_t* data) {
  std::uint16_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

float load_f16(const std::uint8_t* data) { return f16_to_float(load_u16(data)); }

float dense_weight(WeightLayout layout, const std::uint8_t* panel, std::int64_t k, std::int64_t n) {
  switch (layout) {
    case WeightLayout::kF16:
      return load_f16(panel + 2 * (k * kPanelOutputs + n));
    case WeightLayout::kBF16:
      return bf16_to_float(load_u16(panel + 2 * ((k / 2 * kPanelOutputs + n) * 2 + k % 2)));
    default:
      break;
  }
  float value = 0;
  std::memcpy(&value, panel + 4 * (k * kPanelOutputs + n), 4);
  return value;
}

// Rows that share what is read of a panel; their sums lie on the stack.
constexpr std::int64_t kRowsAtOnce = 16;

// Of some rows and one panel. An output's sum is added in the order of its inputs, whatever else is
// computed beside it.
using Sums = double[kRowsAtOnce][kPanelOutputs];

struct PanelPart {
  const std::uint8_t* panel = nullptr;
  std::int64_t outputs = 0;  // of the panel that the weight has
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

void store(const MatmulPanels& args, const PanelPart& part, std::int64_t first_column,
           const Sums& sums) {
  for (std::int64_t r = 0; r < part.rows; ++r) {
    for (std::int64_t n = 0; n < part.outputs; ++n) {
      const std::int64_t column = first_column + n;
      double sum = sums[r][n];
      if (args.bias != nullptr) sum += static_cast<double>(args.bias[column]);
      float& out = args.out[(part.first_row + r) * args.out_stride + column];
      if (args.accumulate) sum += static_cast<double>(out);
      out = static_cast<float>(sum);
    }
  }
}

// Calls add(part, sums), which adds the products, for everything of the call, and stores the sums.
template <typename Add>
void for_each_part(const MatmulPanels& args, const Add& add) {
  for (std::int64_t p = 0; p < args.num_panels; ++p) {
    const std::int64_t column = p * kPanelOutputs;
    PanelPart part = {.panel = args.panels + static_cast<std::uint64_t>(p) * args.panel_bytes,
                      .outputs = std::min(kPanelOutputs, args.outputs - column)};
    for (; part.first_row < args.rows; part.first_row += kRowsAtOnce) {
      part.rows = std::min(kRowsAtOnce, args.rows - part.first_row);
      Sums sums = {};
      add(part, sums);
      store(args, part, column, sums);
    }
  }
}

// Weights of all outputs of a panel for as many inputs.
using WeightLines = double[kGroupInputs][kPanelOutputs];

// Adds the products of `count` inputs from input `k` on.
void add_products(const MatmulPanels& args, const PanelPart& part, std::int64_t k,
                  std::int64_t count, const WeightLines& weights, Sums& sums) {
  for (std::int64_t r = 0; r < part.rows; ++r) {
    const float* x = args.x + (part.first_row + r) * args.x_stride + k;
    double own[kPanelOutputs];
    std::copy_n(sums[r], kPanelOutputs, own);
    for (std::int64_t i = 0; i < count; ++i) {
      const double input = static_cast<double>(x[i]);
      for (std::int64_t n = 0; n < kPanelOutputs; ++n) own[n] += input * weights[i][n];
    }
    std::copy_n(own, kPanelOutputs, sums[r]);
  }
}

void dense(const MatmulPanels& args) {
  for_each_part(args, [&](const PanelPart& part, Sums& sums) {
    for (std::int64_t k = 0; k < args.inputs; k += kGroupInputs) {
      const std::int64_t count = std::min(kGroupInputs, args.inputs - k);
      WeightLines weights = {};
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t n = 0; n < part.outputs; ++n) {
          weights[i][n] = static_cast<double>(dense_weight(args.layout, part.panel, k + i, n));
        }
      }
      add_products(args, part, k, count, weights, sums);
    }
  });
}

// read_group(panel, g, n, put) calls put(i, weight) for every input of a group.
template <typename ReadGroup>
void multiply_float(const MatmulPanels& args, const ReadGroup& read_group) {
  for_each_part(args, [&](const PanelPart& part, Sums& sums) {
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g) {
      WeightLines weights = {};
      for (std::int64_t n = 0; n < part.outputs; ++n) {
        read_group(part.panel, g, n, [&weights, n](int i, float weight) {
          weights[i][n] = static_cast<double>(weight);
        });
      }
      add_products(args, part, g * kGroupInputs, kGroupInputs, weights, sums);
    }
  });
}

void quantized_float(const MatmulPanels& args) {
  const GroupLayout layout = group_layout(args.layout);
  multiply_float(args, [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n, auto put) {
    const PackedGroup group = read_packed_group(layout, panel, g, n);
    for (int i = 0; i < kGroupInputs; ++i) {
      const float product = group.scales[i / 16] * static_cast<float>(group.codes[i]);
      put(i, product + group.minima[i / 16]);
    }
  });
}

void codebook_float(const MatmulPanels& args) {
  multiply_float(args, [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n, auto put) {
    float weights[kGroupSize];
    read_codebook_group(args.layout, panel, args.inputs, g, n, weights);
    for (int i = 0; i < kGroupInputs; ++i) put(i, weights[i]);
  });
}

// A group as products of integers need it: 16 bits times 16 bits are what vectors can multiply
// wherever this level runs.
struct IntegerGroup {
  explicit IntegerGroup(const PackedGroup& group)
      : scales{group.scales[0], group.scales[1]}, minima{group.minima[0], group.minima[1]} {
    std::copy_n(group.codes, kGroupInputs, codes);
  }
  std::int16_t codes[kGroupInputs];
  float scales[2];
  float minima[2];
};

// The sums of the products of a group's codes and a row's, of each half: below 2^31, as a group's
// are at most 2^11 and a row's less than 2^15.
template <typename Code>
std::array<std::int32_t, 2> dot_halves(const IntegerGroup& group, const Code* codes) {
  std::array<std::int32_t, 2> dots = {};
  for (std::size_t half = 0; half < 2; ++half) {
    std::int32_t dot = 0;
    for (std::size_t k = 16 * half; k < 16 * half + 16; ++k) {
      dot += std::int32_t{group.codes[k]} * std::int32_t{codes[k]};
    }
    dots[half] = dot;
  }
  return dots;
}

// What a group of a rounded row gives: its scale times the products of its codes' sums, of the
// halves, and of the sums of its codes, which the minima are multiplied by.
template <typename Sum>
double scaled(float scale, const IntegerGroup& group, std::array<std::int32_t, 2> dots,
              const Sum* sums) {
  return static_cast<double>(scale) *
         (static_cast<double>(group.scales[0]) * static_cast<double>(dots[0]) +
          static_cast<double>(group.scales[1]) * static_cast<double>(dots[1]) +
          static_cast<double>(group.minima[0]) * sums[0] +
          static_cast<double>(group.minima[1]) * sums[1]);
}

// read_group(panel, g, n) is a PackedGroup; multiply(group, row, g) is its product with the group g
// of a whole row.
template <typename ReadGroup, typename Multiply>
void multiply_integers(const MatmulPanels& args, const ReadGroup& read_group,
                       const Multiply& multiply) {
  const std::int64_t first = args.first_input / kGroupInputs;
  for_each_part(args, [&](const PanelPart& part, Sums& sums) {
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g) {
      for (std::int64_t n = 0; n < part.outputs; ++n) {
        const IntegerGroup group(read_group(part.panel, g, n));
        for (std::int64_t r = 0; r < part.rows; ++r) {
          sums[r][n] += multiply(group, part.first_row + r, first + g);
        }
      }
    }
  });
}

void quantized_int8(const MatmulPanels& args) {
  const GroupLayout layout = group_layout(args.layout);
  const std::int64_t groups = args.row_inputs / kGroupInputs;
  multiply_integers(
      args,
      [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n) {
        return read_packed_group(layout, panel, g, n);
      },
      [&](const IntegerGroup& group, std::int64_t r, std::int64_t g) {
        const std::int8_t* codes = args.int8_x.codes + r * args.int8_x.stride + g * kGroupInputs;
        return scaled(args.int8_x.scales[r * groups + g], group, dot_halves(group, codes),
                      args.int8_x.sums + (r * groups + g) * 2);
      });
}

// Where input i of a quad stands in Int16Rows.
constexpr int kOrder[] = {0, 2, 1, 3};

// Blocks of one row each: `max_block_rows` is 1 here. read_group as multiply_integers() has it.
template <typename ReadGroup>
void multiply_int16(const MatmulPanels& args, const ReadGroup& read_group) {
  const std::int64_t groups = args.row_inputs / kGroupInputs;
  multiply_integers(
      args,
      [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n) {
        PackedGroup group = read_group(panel, g, n);
        for (int k = 0; k < kGroupInputs; k += 4) std::swap(group.codes[k + 1], group.codes[k + 2]);
        return group;  // in the order of the rows' codes
      },
      [&](const IntegerGroup& group, std::int64_t r, std::int64_t g) {
        const std::int16_t* codes = args.int16_x.codes + r * args.row_inputs + g * kGroupInputs;
        return scaled(args.int16_x.scales[r * groups + g], group, dot_halves(group, codes),
                      args.int16_x.sums + (r * groups + g) * 2);
      });
}

void quantized_int16(const MatmulPanels& args) {
  const GroupLayout layout = group_layout(args.layout);
  multiply_int16(args, [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n) {
    return read_packed_group(layout, panel, g, n);
  });
}

void codebook_int16(const MatmulPanels& args) {
  multiply_int16(args, [&](const std::uint8_t* panel, std::int64_t g, std::int64_t n) {
    return read_codebook_integers(args.layout, panel, args.inputs, g, n);
  });
}

std::int32_t largest_bits_of(const float* group) {
  std::int32_t largest_bits = 0;
  for (int i = 0; i < kGroupInputs; ++i) {
    largest_bits = std::max(largest_bits, std::bit_cast<std::int32_t>(std::fabs(group[i])));
  }
  return largest_bits;
}

std::int32_t round_code(float x, const RoundingScale& scale) {
  return scale.inverse == 0.0F ? 0 : static_cast<std::int32_t>(std::nearbyint(x * scale.inverse));
}

void quantize_row_int16(const float* x, std::int64_t inputs, std::int64_t block_rows,
                        const Int16Rows& out) {
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const float* group = x + g * kGroupInputs;
    const RoundingScale scale = int16_scale(largest_bits_of(group));
    std::int32_t sums[2] = {};
    for (int i = 0; i < kGroupInputs; ++i) {
      const std::int32_t code = round_code(group[i], scale);
      const std::int64_t quad = g * 8 + i / 4;
      out.codes[quad * 4 * block_rows + kOrder[i % 4]] = static_cast<std::int16_t>(code);
      sums[i / 16] += code;
    }
    out.scales[g * block_rows] = scale.scale;
    out.sums[2 * g * block_rows] = sums[0];
    out.sums[(2 * g + 1) * block_rows] = sums[1];
    out.scaled_sums[g * block_rows] = scale.scale * static_cast<float>(sums[0] + sums[1]);
  }
}

void quantize_row_int8(const float* x, std::int64_t inputs, const Int8Rows& out) {
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const float* group = x + g * kGroupInputs;
    const RoundingScale scale = int8_scale(largest_bits_of(group));
    std::int32_t sums[2] = {};
    for (int i = 0; i < kGroupInputs; ++i) {
      const std::int32_t code = round_code(group[i], scale);
      out.codes[g * kGroupInputs + i] = static_cast<std::int8_t>(code);
      sums[i / 16] += code;
    }
    out.scales[g] = scale.scale;
    out.sums[2 * g] = static_cast<std::int16_t>(sums[0]);
    out.sums[2 * g + 1] = static_cast<std::int16_t>(sums[1]);
    out.scaled_sums[g] = scale.scale * static_cast<float>(sums[0] + sums[1]);
    out.offsets[g] = -128 * (sums[0] + sums[1]);
  }
}

}  // namespace

MatmulKernels ref_matmul_kernels() {
  MatmulKernels kernels;
  for (int layout = 0; layout < kNumWeightLayouts; ++layout) {
    const bool quantized = is_quantized(static_cast<WeightLayout>(layout));
    kernels.with_float[layout] = quantized ? quantized_float : dense;
    const bool integers = quantized && !has_float_codes(static_cast<WeightLayout>(layout));
    kernels.with_int16[layout] = integers ? quantized_int16 : nullptr;
    if (is_codebook(static_cast<WeightLayout>(layout))) {
      kernels.with_float[layout] = codebook_float;
      kernels.with_int16[layout] = codebook_int16;
    }
    const bool below_8_bits =
        integers && group_layout(static_cast<WeightLayout>(layout)).code_bits < 8;
    kernels.with_int8[layout] = below_8_bits ? quantized_int8 : nullptr;
  }
  set_ref_expanders(kernels);
  kernels.quantize_row_int16 = quantize_row_int16;
  kernels.quantize_row_int8 = quantize_row_int8;
  return kernels;
}

}  // namespace quire
