#include "kernels/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "kernels/group_layout.h"
#include "kernels/packed_group.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

// Where a row of the stacked matrix lies in the checkpoint.
const std::uint8_t* find_row(const EncodedMatrix* parts, int num_parts, std::uint64_t row_bytes,
                             std::int64_t row) {
  for (int i = 0; i < num_parts; ++i) {
    if (row < parts[i].rows) return parts[i].data + static_cast<std::uint64_t>(row) * row_bytes;
    row -= parts[i].rows;
  }
  return nullptr;
}

bool is_finite_f16(std::uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }
bool is_finite_bf16(std::uint16_t bits) { return (bits & 0x7F80) != 0x7F80; }

// Each packs row `data` as output `n` of a panel; false if a weight or scale is not finite.
bool pack_f32(const std::uint8_t* data, std::int64_t inputs, std::int64_t n, std::uint8_t* panel) {
  bool finite = true;
  for (std::int64_t k = 0; k < inputs; ++k) {
    float value = 0;
    std::memcpy(&value, data + 4 * k, 4);
    finite = finite && std::isfinite(value);
    std::memcpy(panel + 4 * (k * kPanelOutputs + n), &value, 4);
  }
  return finite;
}

bool pack_half(const std::uint8_t* data, std::int64_t inputs, std::int64_t n, bool bf16,
               std::uint8_t* panel) {
  bool finite = true;
  for (std::int64_t k = 0; k < inputs; ++k) {
    std::uint16_t value = 0;
    std::memcpy(&value, data + 2 * k, 2);
    finite = finite && (bf16 ? is_finite_bf16(value) : is_finite_f16(value));
    const std::int64_t index =
        bf16 ? (k / 2 * kPanelOutputs + n) * 2 + k % 2 : k * kPanelOutputs + n;
    std::memcpy(panel + 2 * index, &value, 2);
  }
  return finite;
}

bool pack_groups(const std::uint8_t* data, std::int64_t inputs, std::int64_t n, Encoding encoding,
                 std::uint8_t* panel) {
  const GroupLayout layout = group_layout(layout_of(encoding));
  bool finite = true;
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const WeightGroup group = read_group(encoding, data, g);
    finite = write_packed_group(layout, group, panel, g, n) && finite;
  }
  return finite;
}

bool pack_row(Encoding encoding, const std::uint8_t* data, std::int64_t inputs, std::int64_t n,
              std::uint8_t* panel) {
  switch (encoding) {
    case Encoding::kF32:
      return pack_f32(data, inputs, n, panel);
    case Encoding::kF16:
      return pack_half(data, inputs, n, /*bf16=*/false, panel);
    case Encoding::kBF16:
      return pack_half(data, inputs, n, /*bf16=*/true, panel);
    default:
      return pack_groups(data, inputs, n, encoding, panel);
  }
}

}  // namespace

std::string_view weight_layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF32:
      return "f32";
    case WeightLayout::kF16:
      return "f16";
    case WeightLayout::kBF16:
      return "bf16";
    case WeightLayout::kInt8:
      return "int8";
    case WeightLayout::kInt4:
      return "int4";
    case WeightLayout::kInt5:
      return "int5";
    case WeightLayout::kUint4:
      return "uint4";
    case WeightLayout::kUint5:
      return "uint5";
    case WeightLayout::kUint4Super:
      return "uint4_super";
    case WeightLayout::kUint5Super:
      return "uint5_super";
    case WeightLayout::kInt6Super:
      return "int6_super";
  }
  return "?";
}

WeightLayout layout_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kF32:
      return WeightLayout::kF32;
    case Encoding::kF16:
      return WeightLayout::kF16;
    case Encoding::kBF16:
      return WeightLayout::kBF16;
    case Encoding::kQ8_0:
      return WeightLayout::kInt8;
    case Encoding::kQ4_0:
      return WeightLayout::kInt4;
    case Encoding::kQ4_1:
      return WeightLayout::kUint4;
    case Encoding::kQ5_0:
      return WeightLayout::kInt5;
    case Encoding::kQ5_1:
      return WeightLayout::kUint5;
    case Encoding::kQ4_K:
      return WeightLayout::kUint4Super;
    case Encoding::kQ5_K:
      return WeightLayout::kUint5Super;
    case Encoding::kQ6_K:
      return WeightLayout::kInt6Super;
  }
  return WeightLayout::kF32;
}

std::uint64_t panel_bytes(WeightLayout layout, std::int64_t inputs) {
  const auto k = static_cast<std::uint64_t>(inputs);
  switch (layout) {
    case WeightLayout::kF32:
      return k * kPanelOutputs * 4;
    case WeightLayout::kF16:
      return k * kPanelOutputs * 2;
    case WeightLayout::kBF16:
      return (k + 1) / 2 * kPanelOutputs * 4;
    default:
      break;
  }
  const GroupLayout form = group_layout(layout);
  const std::int64_t block_inputs = kGroupInputs * form.groups_per_block();
  return static_cast<std::uint64_t>(ceil_div(inputs, block_inputs) * form.block_bytes());
}

std::uint64_t packed_bytes(WeightLayout layout, std::int64_t outputs, std::int64_t inputs) {
  return static_cast<std::uint64_t>(ceil_div(outputs, kPanelOutputs)) * panel_bytes(layout, inputs);
}

Result<PackedWeight> PackedWeight::pack(ThreadPool& pool, const EncodedMatrix* parts,
                                        int num_parts) {
  PackedWeight weight;
  const Encoding encoding = parts[0].encoding;
  weight.inputs_ = parts[0].cols;
  weight.layout_ = layout_of(encoding);
  for (int i = 0; i < num_parts; ++i) {
    if (parts[i].encoding != encoding || parts[i].cols != weight.inputs_ || parts[i].rows <= 0) {
      return Status::bad_model("matrices that are used as one differ in encoding or width");
    }
    weight.outputs_ += parts[i].rows;
  }
  const auto row_bytes = encoded_row_bytes(encoding, weight.inputs_);
  if (!row_bytes || weight.inputs_ == 0) {
    return Status::bad_model(fmt::format("{} columns are not a whole number of {} blocks",
                                         weight.inputs_, encoding_traits(encoding).name));
  }
  const std::uint64_t stride = panel_bytes(weight.layout_, weight.inputs_);
  QUIRE_ASSIGN_OR_RETURN(weight.buffer_, Buffer::allocate(packed_bytes(
                                             weight.layout_, weight.outputs_, weight.inputs_)));

  std::atomic<std::int64_t> bad_row = -1;
  pool.parallel_for(weight.num_panels(), 4, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t p = begin; p < end; ++p) {
      auto* panel = reinterpret_cast<std::uint8_t*>(weight.buffer_.data()) +
                    static_cast<std::uint64_t>(p) * stride;
      const std::int64_t rows = std::min(kPanelOutputs, weight.outputs_ - p * kPanelOutputs);
      for (std::int64_t n = 0; n < rows; ++n) {
        const std::int64_t row = p * kPanelOutputs + n;
        const std::uint8_t* data = find_row(parts, num_parts, *row_bytes, row);
        if (!pack_row(encoding, data, weight.inputs_, n, panel)) bad_row = row;
      }
    }
  });
  if (bad_row >= 0) {
    return Status::bad_model(fmt::format("row {} has weights that are not finite", bad_row.load()),
                             "fetch the file again");
  }
  return weight;
}

void PackedWeight::decode_output(std::int64_t n, float* out) const {
  const std::uint8_t* data = panel(n / kPanelOutputs);
  const std::int64_t column = n % kPanelOutputs;
  const auto half_at = [](const std::uint8_t* from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return bits;
  };
  switch (layout_) {
    case WeightLayout::kF32:
      for (std::int64_t k = 0; k < inputs_; ++k) {
        std::memcpy(out + k, data + 4 * (k * kPanelOutputs + column), 4);
      }
      return;
    case WeightLayout::kF16:
      for (std::int64_t k = 0; k < inputs_; ++k) {
        out[k] = f16_to_float(half_at(data + 2 * (k * kPanelOutputs + column)));
      }
      return;
    case WeightLayout::kBF16:
      for (std::int64_t k = 0; k < inputs_; ++k) {
        out[k] = bf16_to_float(half_at(data + 2 * ((k / 2 * kPanelOutputs + column) * 2 + k % 2)));
      }
      return;
    default:
      break;
  }
  const GroupLayout form = group_layout(layout_);
  for (std::int64_t g = 0; g < inputs_ / kGroupInputs; ++g, out += kGroupInputs) {
    const PackedGroup group = read_packed_group(form, data, g, column);
    for (int i = 0; i < kGroupSize; ++i) {
      const float product = group.scales[i / kHalfGroupSize] * static_cast<float>(group.codes[i]);
      out[i] = product + group.minimum;
    }
  }
}

}  // namespace quire
