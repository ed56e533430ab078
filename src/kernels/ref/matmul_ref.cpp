#include "kernels/ref/matmul_ref.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

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

// Output n of one group of a quantized panel: w = scale * code + minimum.
struct Group {
  int codes[kGroupInputs];
  float scale;
  float minimum;
};

Group read_packed_group(WeightLayout layout, const std::uint8_t* panel, std::int64_t index,
                        std::int64_t n) {
  Group group = {};
  if (layout == WeightLayout::kInt8) {
    const std::uint8_t* data = panel + index * kInt8GroupBytes;
    for (int i = 0; i < kGroupInputs; ++i) {
      group.codes[i] = static_cast<std::int8_t>(data[(i / 4 * kPanelOutputs + n) * 4 + i % 4]);
    }
    group.scale = load_f16(data + 512 + 2 * n);
    return group;
  }
  const bool has_minimum = layout == WeightLayout::kUint4;
  const std::uint8_t* data = panel + index * (has_minimum ? kUint4GroupBytes : kInt4GroupBytes);
  const int zero = has_minimum ? 0 : 8;
  for (int i = 0; i < kGroupInputs / 2; ++i) {
    const std::uint8_t byte = data[(i / 4 * kPanelOutputs + n) * 4 + i % 4];
    group.codes[i] = (byte & 0x0F) - zero;
    group.codes[i + kGroupInputs / 2] = (byte >> 4) - zero;
  }
  group.scale = load_f16(data + 256 + 2 * n);
  group.minimum = has_minimum ? load_f16(data + 288 + 2 * n) : 0.0F;
  return group;
}

// Calls dot(panel, row, n) for every output of the call and stores it.
template <typename Dot>
void for_each_output(const MatmulPanels& args, Dot dot) {
  for (std::int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const std::uint8_t* panel = args.panels + static_cast<std::uint64_t>(p) * args.panel_bytes;
    for (std::int64_t r = 0; r < args.rows; ++r) {
      for (std::int64_t n = 0; n < kPanelOutputs && p * kPanelOutputs + n < args.outputs; ++n) {
        const std::int64_t column = p * kPanelOutputs + n;
        double sum = dot(panel, r, n);
        if (args.bias != nullptr) sum += static_cast<double>(args.bias[column]);
        float& out = args.out[r * args.out_stride + column];
        if (args.accumulate) sum += static_cast<double>(out);
        out = static_cast<float>(sum);
      }
    }
  }
}

void dense(const MatmulPanels& args) {
  for_each_output(args, [&](const std::uint8_t* panel, std::int64_t r, std::int64_t n) {
    double sum = 0;
    for (std::int64_t k = 0; k < args.inputs; ++k) {
      sum += static_cast<double>(args.x[r * args.x_stride + k]) *
             static_cast<double>(dense_weight(args.layout, panel, k, n));
    }
    return sum;
  });
}

void quantized_float(const MatmulPanels& args) {
  for_each_output(args, [&](const std::uint8_t* panel, std::int64_t r, std::int64_t n) {
    double sum = 0;
    for (std::int64_t g = 0; g < args.inputs / kGroupInputs; ++g) {
      const Group group = read_packed_group(args.layout, panel, g, n);
      const float* x = args.x + r * args.x_stride + g * kGroupInputs;
      for (int i = 0; i < kGroupInputs; ++i) {
        const float product = group.scale * static_cast<float>(group.codes[i]);
        const float weight = product + group.minimum;
        sum += static_cast<double>(x[i]) * static_cast<double>(weight);
      }
    }
    return sum;
  });
}

void quantized_int8(const MatmulPanels& args) {
  const std::int64_t groups = args.inputs / kGroupInputs;
  for_each_output(args, [&](const std::uint8_t* panel, std::int64_t r, std::int64_t n) {
    double sum = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const Group group = read_packed_group(args.layout, panel, g, n);
      const std::int8_t* codes = args.int8_x.codes + r * args.inputs + g * kGroupInputs;
      int dot = 0;
      for (int i = 0; i < kGroupInputs; ++i) dot += group.codes[i] * codes[i];
      const auto scale = static_cast<double>(args.int8_x.scales[r * groups + g]);
      const int codes_sum = args.int8_x.sums[r * groups + g];
      sum += scale * (static_cast<double>(group.scale) * dot +
                      static_cast<double>(group.minimum) * codes_sum);
    }
    return sum;
  });
}

void quantize_row(const float* x, std::int64_t inputs, const Int8Rows& out) {
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const float* group = x + g * kGroupInputs;
    std::int32_t largest_bits = 0;
    for (int i = 0; i < kGroupInputs; ++i) {
      largest_bits = std::max(largest_bits, std::bit_cast<std::int32_t>(std::fabs(group[i])));
    }
    const Int8Scale scale = int8_scale(largest_bits);
    std::int32_t sum = 0;
    for (int i = 0; i < kGroupInputs; ++i) {
      const float rounded = scale.inverse == 0.0F ? 0.0F : std::nearbyint(group[i] * scale.inverse);
      out.codes[g * kGroupInputs + i] = static_cast<std::int8_t>(rounded);
      sum += static_cast<std::int32_t>(rounded);
    }
    out.scales[g] = scale.scale;
    out.sums[g] = sum;
    out.scaled_sums[g] = scale.scale * static_cast<float>(sum);
  }
}

}  // namespace

MatmulKernels ref_matmul_kernels() {
  return {.f32 = dense,
          .f16 = dense,
          .bf16 = dense,
          .int8_float = quantized_float,
          .uint4_float = quantized_float,
          .int4_float = quantized_float,
          .int8_int8 = quantized_int8,
          .uint4_int8 = quantized_int8,
          .int4_int8 = quantized_int8,
          .quantize_row = quantize_row};
}

}  // namespace quire
