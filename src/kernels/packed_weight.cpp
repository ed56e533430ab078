#include "kernels/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "kernels/codebook_panel.h"
#include "kernels/group_layout.h"
#include "kernels/pack_panel.h"
#include "kernels/packed_group.h"
#include "tensor/float_convert.h"
#include "tensor/thread_pool.h"

namespace quire {
namespace {

// What a worker reads of the checkpoint at a time.
constexpr std::uint64_t kChunkBytes = 1U << 20;

// Calls piece(data, rows) for each part of rows [begin, end) of the stacked matrix that lies in one
// piece in the checkpoint.
template <typename Piece>
void for_each_piece(const EncodedMatrix* parts, int num_parts, std::int64_t begin, std::int64_t end,
                    const Piece& piece) {
  std::int64_t first = 0;
  for (int i = 0; i < num_parts; first += parts[i++].rows) {
    const std::int64_t from = std::max(begin, first) - first;
    const std::int64_t to = std::min(end, first + parts[i].rows) - first;
    if (from >= to) continue;
    const auto row_bytes = encoded_row_bytes(parts[i].encoding, parts[i].cols).value();
    piece(parts[i].data + static_cast<std::uint64_t>(from) * row_bytes, to - from);
  }
}

// Where a row of the stacked matrix lies in the checkpoint; nullptr beyond the last.
const std::uint8_t* find_row(const EncodedMatrix* parts, int num_parts, std::uint64_t row_bytes,
                             std::int64_t row) {
  for (int i = 0; i < num_parts; ++i) {
    if (row < parts[i].rows) return parts[i].data + static_cast<std::uint64_t>(row) * row_bytes;
    row -= parts[i].rows;
  }
  return nullptr;
}

constexpr std::size_t kMaxRowHeader = 4;
constexpr std::size_t kMaxBlockBytes = 292;

// Compact encodings and the layouts of their blocks are in the same order.
static_assert(kNumEncodings - static_cast<int>(kFirstCompact) ==
              kNumWeightLayouts - static_cast<int>(kFirstBlocks));

template <typename To, typename From>
To moved(From from, From first, To to_first) {
  return static_cast<To>(static_cast<int>(from) - static_cast<int>(first) +
                         static_cast<int>(to_first));
}

// Output `column` of a panel of compact blocks.
void decode_blocks(Encoding encoding, const std::uint8_t* panel, std::int64_t column,
                   std::int64_t inputs, float* out) {
  const auto [name, weights, bytes, header] = encoding_traits(encoding);
  std::uint8_t row[kMaxRowHeader + kMaxBlockBytes];  // of one block
  const auto header_bytes = static_cast<std::size_t>(header);
  std::memcpy(row, panel + column * header, header_bytes);
  const std::uint8_t* block = panel + kPanelOutputs * header + column * bytes;
  for (std::int64_t k = 0; k < inputs; k += weights, block += kPanelOutputs * bytes) {
    std::memcpy(row + header_bytes, block, static_cast<std::size_t>(bytes));
    decode_row(encoding, row, weights, out + k);
  }
}

// A row of weights of zero for an output of the last panel that there is not. Zero bytes are that,
// but for codes of a table whose scales are not their own.
std::vector<std::uint8_t> zero_row(Encoding encoding, std::int64_t inputs,
                                   std::uint64_t row_bytes) {
  std::vector<std::uint8_t> row(row_bytes);
  if (!is_nested_codebook(encoding)) return row;
  const CodebookGroups form = codebook_groups(encoding);
  const auto code =
      static_cast<unsigned>(std::find(form.table, form.table + 16, 0.0F) - form.table);
  std::fill(row.begin() + form.header_bytes(inputs), row.end(),
            static_cast<std::uint8_t>(code | code << 4U));
  return row;
}

bool same_order(const EncodedMatrix& a, const EncodedMatrix& b) {
  if (a.input_order == nullptr || b.input_order == nullptr) return a.input_order == b.input_order;
  return std::equal(a.input_order, a.input_order + a.cols, b.input_order);
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
    case WeightLayout::kInt8Row:
      return "int8_row";
    case WeightLayout::kInt4Group128:
      return "int4_group128";
    case WeightLayout::kUint4Zero32:
      return "uint4_zero32";
    case WeightLayout::kUint4Zero64:
      return "uint4_zero64";
    case WeightLayout::kUint4Zero128:
      return "uint4_zero128";
    case WeightLayout::kUint4ZeroRow:
      return "uint4_zero_row";
    case WeightLayout::kUint4Scale32:
      return "uint4_scale32";
    case WeightLayout::kUint4Scale64:
      return "uint4_scale64";
    case WeightLayout::kUint4Scale128:
      return "uint4_scale128";
    case WeightLayout::kInt8Zero32:
      return "int8_zero32";
    case WeightLayout::kInt8Zero64:
      return "int8_zero64";
    case WeightLayout::kInt8Zero128:
      return "int8_zero128";
    case WeightLayout::kInt8ZeroRow:
      return "int8_zero_row";
    case WeightLayout::kInt8Scale32:
      return "int8_scale32";
    case WeightLayout::kInt8Scale64:
      return "int8_scale64";
    case WeightLayout::kF8Row:
      return "f8_row";
    case WeightLayout::kF8Block128:
      return "f8_block128";
    case WeightLayout::kInt8Halves:
      return "int8_halves";
    case WeightLayout::kInt8HalvesMinimum:
      return "int8_halves_minimum";
    default:
      if (is_codebook(layout)) {
        return encoding_traits(
                   moved<Encoding>(layout, WeightLayout::kNF4Span64, Encoding::kNF4Span64))
            .name;
      }
      return encoding_traits(encoding_of_blocks(layout)).name;
  }
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
    case Encoding::kUint4Zero32:
      return WeightLayout::kUint4Zero32;
    case Encoding::kUint4Zero64:
      return WeightLayout::kUint4Zero64;
    case Encoding::kUint4Zero128:
      return WeightLayout::kUint4Zero128;
    case Encoding::kUint4ZeroRow:
      return WeightLayout::kUint4ZeroRow;
    case Encoding::kUint4Scale32:
      return WeightLayout::kUint4Scale32;
    case Encoding::kUint4Scale64:
      return WeightLayout::kUint4Scale64;
    case Encoding::kUint4Scale128:
      return WeightLayout::kUint4Scale128;
    case Encoding::kInt8Zero32:
      return WeightLayout::kInt8Zero32;
    case Encoding::kInt8Zero64:
      return WeightLayout::kInt8Zero64;
    case Encoding::kInt8Zero128:
      return WeightLayout::kInt8Zero128;
    case Encoding::kInt8ZeroRow:
      return WeightLayout::kInt8ZeroRow;
    case Encoding::kInt8Scale32:
      return WeightLayout::kInt8Scale32;
    case Encoding::kInt8Scale64:
      return WeightLayout::kInt8Scale64;
    case Encoding::kInt8Row:
      return WeightLayout::kInt8Row;
    case Encoding::kF8Row:
      return WeightLayout::kF8Row;
    case Encoding::kF8Block128:
      return WeightLayout::kF8Block128;
    case Encoding::kF8E4M3:
    case Encoding::kU8:
    case Encoding::kI8:
    case Encoding::kI32:
    case Encoding::kI64:
      return WeightLayout::kF32;  // no weights: not asked for
    default:
      if (is_codebook(encoding)) {
        return moved<WeightLayout>(encoding, Encoding::kNF4Span64, WeightLayout::kNF4Span64);
      }
      return moved<WeightLayout>(encoding, kFirstCompact, kFirstBlocks);
  }
}

Encoding encoding_of_blocks(WeightLayout layout) {
  return moved<Encoding>(layout, kFirstBlocks, kFirstCompact);
}

WeightLayout layout_at_load(Encoding encoding, std::int64_t inputs, const PackOptions& options) {
  const WeightLayout as_it_is = layout_of(encoding);
  if (options.quantization == LoadQuantization::kNone || is_quantized(as_it_is) ||
      inputs % kGroupInputs != 0) {
    return as_it_is;
  }
  const bool four_bits = options.quantization == LoadQuantization::kInt4 && !options.vocabulary;
  return four_bits ? WeightLayout::kInt4Group128 : WeightLayout::kInt8Row;
}

std::uint64_t block_offset(WeightLayout layout, std::int64_t input) {
  const EncodingTraits& traits = encoding_traits(encoding_of_blocks(layout));
  return static_cast<std::uint64_t>(
      kPanelOutputs *
      (traits.row_header_bytes + input / traits.block_elements * traits.block_bytes));
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
  if (is_blocks(layout)) return block_offset(layout, inputs);
  if (is_codebook(layout))
    return static_cast<std::uint64_t>(CodebookPanel::of(layout).bytes(inputs));
  const GroupLayout form = group_layout(layout);
  const std::int64_t groups = ceil_div(inputs, kGroupInputs);
  if (form.scales_come_first()) {
    // The last block ends with its last group.
    const std::int64_t last = groups - 1;
    return static_cast<std::uint64_t>(form.block_offset(last) + form.group_offset(last) +
                                      form.group_bytes());
  }
  return static_cast<std::uint64_t>(form.panel_header_bytes() +
                                    ceil_div(groups, form.groups_per_block()) * form.block_bytes());
}

std::uint64_t packed_bytes(WeightLayout layout, std::int64_t outputs, std::int64_t inputs) {
  return static_cast<std::uint64_t>(ceil_div(outputs, kPanelOutputs)) * panel_bytes(layout, inputs);
}

Result<PackedWeight> PackedWeight::pack(ThreadPool& pool, const EncodedMatrix* parts, int num_parts,
                                        const PackOptions& options) {
  PackedWeight weight;
  const Encoding encoding = parts[0].encoding;
  weight.inputs_ = parts[0].cols;
  weight.layout_ = layout_at_load(encoding, weight.inputs_, options);
  for (int i = 0; i < num_parts; ++i) {
    if (parts[i].encoding != encoding || parts[i].cols != weight.inputs_ || parts[i].rows <= 0) {
      return Status::bad_model("matrices that are used as one differ in encoding or width");
    }
    if (!same_order(parts[i], parts[0])) {
      return Status::bad_model("matrices that are used as one differ in the order of their inputs");
    }
    if (is_nested_codebook(encoding) && weight.outputs_ % kPanelOutputs != 0) {
      return Status::unimplemented(
          fmt::format("matrices that are used as one have {} rows, no multiple of {}, of {}",
                      parts[i - 1].rows, kPanelOutputs, encoding_traits(encoding).name),
          "use a checkpoint without double quantization");
    }
    weight.outputs_ += parts[i].rows;
  }
  const auto row_bytes = encoded_row_bytes(encoding, weight.inputs_);
  if (!row_bytes || weight.inputs_ == 0) {
    return Status::bad_model(fmt::format("{} columns are not a whole number of {} blocks",
                                         weight.inputs_, encoding_traits(encoding).name));
  }
  const std::uint64_t stride = panel_bytes(weight.layout_, weight.inputs_);
  const std::uint64_t panel_bytes = packed_bytes(weight.layout_, weight.outputs_, weight.inputs_);
  weight.is_ordered_ = parts[0].input_order != nullptr;
  const std::uint64_t order_bytes = weight.is_ordered_ ? input_order_bytes(weight.inputs_) : 0;
  QUIRE_ASSIGN_OR_RETURN(weight.buffer_, Buffer::allocate(panel_bytes + order_bytes));
  auto* const packed = reinterpret_cast<std::uint8_t*>(weight.buffer_.data());
  weight.bytes_ = {packed, weight.buffer_.size()};
  if (weight.is_ordered_) std::memcpy(packed + panel_bytes, parts[0].input_order, order_bytes);
  std::vector<std::uint8_t> zeros;
  if (weight.outputs_ % kPanelOutputs != 0) zeros = zero_row(encoding, weight.inputs_, *row_bytes);
  const std::uint64_t scratch_bytes =
      (pack_scratch_bytes(weight.layout_, weight.inputs_) + 63) / 64 * 64;
  QUIRE_ASSIGN_OR_RETURN(
      const Buffer scratch,
      Buffer::allocate(scratch_bytes * static_cast<std::uint64_t>(pool.num_threads())));

  std::atomic<std::int64_t> bad_panel = -1;
  const auto pack = [&](std::int64_t begin, std::int64_t end, int worker) {
    const auto own =
        scratch.bytes().subspan(scratch_bytes * static_cast<std::uint64_t>(worker), scratch_bytes);
    for (std::int64_t p = begin; p < end; ++p) {
      PanelRows source = {.encoding = encoding, .inputs = weight.inputs_};
      source.num_rows = std::min(kPanelOutputs, weight.outputs_ - p * kPanelOutputs);
      for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
        const std::uint8_t* row = find_row(parts, num_parts, *row_bytes, p * kPanelOutputs + n);
        source.rows[n] = row == nullptr ? zeros.data() : row;
      }
      std::uint8_t* panel = packed + static_cast<std::uint64_t>(p) * stride;
      if (!pack_panel(source, weight.layout_, own, panel)) bad_panel = p;
    }
    if (options.done) {
      for_each_piece(parts, num_parts, begin * kPanelOutputs, end * kPanelOutputs,
                     [&](const std::uint8_t* from, std::int64_t rows) {
                       options.done(from, static_cast<std::uint64_t>(rows) * *row_bytes);
                     });
    }
  };
  const auto most = static_cast<std::int64_t>(
      kChunkBytes / (*row_bytes * static_cast<std::uint64_t>(kPanelOutputs)) + 1);
  // Fewer where there are few panels, so that all workers end together.
  const std::int64_t share = ceil_div(weight.num_panels(), std::int64_t{8} * pool.num_threads());
  const std::int64_t panels_per_chunk = std::min(most, share);
  pool.parallel_for(weight.num_panels(), panels_per_chunk, pack);
  if (bad_panel >= 0) {
    const std::int64_t first = bad_panel * kPanelOutputs;
    return Status::bad_model(
        fmt::format(
            "rows {} to {} have weights that are not finite{}", first,
            std::min(first + kPanelOutputs, weight.outputs_) - 1,
            weight.layout_ == WeightLayout::kInt4Group128 ? " or beyond half precision" : ""),
        "fetch the file again");
  }
  return weight;
}

PackedWeight PackedWeight::view(WeightLayout layout, std::int64_t outputs, std::int64_t inputs,
                                std::span<const std::uint8_t> bytes,
                                std::shared_ptr<const void> owner) {
  PackedWeight weight;
  weight.layout_ = layout;
  weight.outputs_ = outputs;
  weight.inputs_ = inputs;
  weight.is_ordered_ = bytes.size() > packed_bytes(layout, outputs, inputs);
  weight.bytes_ = bytes;
  weight.owner_ = std::move(owner);
  return weight;
}

void PackedWeight::decode_output(std::int64_t n, float* out) const {
  if (const std::int32_t* order = input_order(); order != nullptr) {
    for (std::int64_t g = 0; g < inputs_ / kGroupInputs; ++g) {
      float group[kGroupSize];
      decode_group(n, g, group);
      for (int i = 0; i < kGroupSize; ++i) out[order[g * kGroupInputs + i]] = group[i];
    }
    return;
  }
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
  if (is_blocks(layout_)) {
    decode_blocks(encoding_of_blocks(layout_), data, column, inputs_, out);
    return;
  }
  for (std::int64_t g = 0; g < inputs_ / kGroupInputs; ++g) {
    decode_group(n, g, out + g * kGroupInputs);
  }
}

void PackedWeight::decode_group(std::int64_t n, std::int64_t g, float* out) const {
  if (is_codebook(layout_)) {
    read_codebook_group(layout_, panel(n / kPanelOutputs), inputs_, g, n % kPanelOutputs, out);
    return;
  }
  const PackedGroup group =
      read_packed_group(group_layout(layout_), panel(n / kPanelOutputs), g, n % kPanelOutputs);
  for (int i = 0; i < kGroupSize; ++i) {
    const float product = group.scales[i / kHalfGroupSize] * static_cast<float>(group.codes[i]);
    out[i] = product + group.minima[i / kHalfGroupSize];
  }
}

}  // namespace quire
