#include "kernels/matmul_call.h"

#include <algorithm>

#include "kernels/expanded_matmul.h"
#include "kernels/group_layout.h"
#include "kernels/transpose.h"

namespace quire {
namespace {

// Below this many values to prepare, one worker does it sooner than several can be woken.
constexpr std::int64_t kSerialValues = 16'384;

// With few rows a worker gets not so many panels that threads read from memory far apart; with
// more, where the first weights of a chunk are waited for and all others fetched ahead, more.
constexpr std::int64_t kMaxDirectChunkPanels = 32;
constexpr std::int64_t kMaxChunkPanels = 96;

// The blocks of all rows, each chunk cut as its kernel will cut it.
class InputBlocks {
 public:
  InputBlocks(std::int64_t rows, std::int64_t chunk_rows, std::int64_t max_rows)
      : block_rows_(max_rows),
        in_chunks_(rows / chunk_rows * chunk_rows),
        rest_(rows - in_chunks_, max_rows) {}

  std::int64_t count() const { return whole() + rest_.count; }
  std::int64_t first(std::int64_t block) const {
    return block < whole() ? block * block_rows_ : in_chunks_ + rest_.first(block - whole());
  }
  std::int64_t size(std::int64_t block) const {
    return block < whole() ? block_rows_ : rest_.size(block - whole());
  }

 private:
  std::int64_t whole() const { return in_chunks_ / block_rows_; }

  std::int64_t block_rows_;
  std::int64_t in_chunks_;  // rows of whole chunks
  RowBlocks rest_;
};

std::size_t index(WeightLayout layout) { return static_cast<std::size_t>(layout); }

// Whose products have inputs as floats, of 32 bits or rounded to bfloat16.
bool has_float_products(WeightLayout layout) {
  return !is_quantized(layout) || (has_float_codes(layout) && !is_codebook(layout));
}

// Calls fn(block) for every block of rows; below a number of values on this thread alone.
template <typename F>
void for_each_block(OpContext& ctx, const InputBlocks& blocks, std::int64_t values, const F& fn) {
  if (values <= kSerialValues) {
    for (std::int64_t block = 0; block < blocks.count(); ++block) fn(block);
    return;
  }
  ctx.pool.parallel_for(blocks.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t block = begin; block < end; ++block) fn(block);
  });
}

// Calls fn(row, first, size) for every row, with the block of rows that it is in.
template <typename F>
void for_each_row(OpContext& ctx, const InputBlocks& blocks, std::int64_t values, const F& fn) {
  for_each_block(ctx, blocks, values, [&](std::int64_t block) {
    const std::int64_t first = blocks.first(block);
    const std::int64_t size = blocks.size(block);
    for (std::int64_t row = first; row < first + size; ++row) fn(row, first, size);
  });
}

// out[k][r] = x[r][k]: four rows by four inputs at a time, the last four rows again where their
// number is no multiple of four.
void interleave_rows(const float* x, std::int64_t x_stride, std::int64_t rows, std::int64_t inputs,
                     float* out) {
  std::int64_t k = 0;
  for (; rows >= 4 && k + 4 <= inputs; k += 4) {
    for (std::int64_t next = 0; next < rows; next += 4) {
      const std::int64_t first = std::min(next, rows - 4);
      Words of_row[4];
      Words of_input[4];
      for (int r = 0; r < 4; ++r) of_row[r] = load_words(x + (first + r) * x_stride + k);
      transpose_4x4(of_row, of_input);
      for (int i = 0; i < 4; ++i) store_words(of_input[i], out + (k + i) * rows + first);
    }
  }
  for (; k < inputs; ++k) {
    for (std::int64_t r = 0; r < rows; ++r) out[k * rows + r] = x[r * x_stride + k];
  }
}

const float* block_rows(OpContext& ctx, const float* x, std::int64_t x_stride,
                        const InputBlocks& blocks, std::int64_t rows, std::int64_t inputs,
                        Arena& workspace) {
  float* const blocked = workspace.array<float>(rows * inputs);
  for_each_block(ctx, blocks, rows * inputs, [&](std::int64_t block) {
    const std::int64_t first = blocks.first(block);
    interleave_rows(x + first * x_stride, x_stride, blocks.size(block), inputs,
                    blocked + first * inputs);
  });
  return blocked;
}

Bf16Rows round_to_bf16(OpContext& ctx, const float* x, std::int64_t x_stride,
                       const InputBlocks& blocks, std::int64_t rows, std::int64_t inputs,
                       Arena& workspace) {
  Bf16Rows all;
  all.stride = bf16_row_stride(inputs);
  all.values = workspace.array<std::uint16_t>(rows * all.stride);
  for_each_row(ctx, blocks, rows * inputs, [&](std::int64_t r, std::int64_t, std::int64_t) {
    ctx.table.matmul.round_row_bf16(x + r * x_stride, inputs, all.values + r * all.stride);
  });
  return all;
}

Int16Rows round_to_int16(OpContext& ctx, const float* x, std::int64_t x_stride,
                         const InputBlocks& blocks, std::int64_t rows, std::int64_t inputs,
                         Arena& workspace) {
  const std::int64_t groups = inputs / kGroupInputs;
  Int16Rows all;
  all.codes = workspace.array<std::int16_t>(rows * inputs);
  all.scales = workspace.array<float>(rows * groups);
  all.sums = workspace.array<std::int32_t>(2 * rows * groups);
  all.scaled_sums = workspace.array<float>(rows * groups);
  for_each_row(
      ctx, blocks, rows * inputs, [&](std::int64_t r, std::int64_t first, std::int64_t size) {
        const std::int64_t offset = first * groups + r - first;
        ctx.table.matmul.quantize_row_int16(x + r * x_stride, inputs, size,
                                            {.codes = all.codes + first * inputs + 4 * (r - first),
                                             .scales = all.scales + offset,
                                             .sums = all.sums + first * groups + offset,
                                             .scaled_sums = all.scaled_sums + offset});
      });
  return all;
}

Int16ByteRows round_to_int16_bytes(OpContext& ctx, const float* x, std::int64_t x_stride,
                                   const InputBlocks& blocks, std::int64_t rows,
                                   std::int64_t inputs, Arena& workspace) {
  const std::int64_t groups = inputs / kGroupInputs;
  Int16ByteRows all;
  all.stride = byte_row_stride(inputs);
  all.high = workspace.array<std::int8_t>(rows * all.stride);
  all.low = workspace.array<std::int8_t>(rows * all.stride);
  all.scales = workspace.array<float>(rows * groups);
  all.sums = workspace.array<std::int32_t>(2 * rows * groups);
  all.scaled_sums = workspace.array<float>(rows * groups);
  for_each_row(ctx, blocks, rows * inputs, [&](std::int64_t r, std::int64_t, std::int64_t) {
    ctx.table.matmul.quantize_row_int16_bytes(x + r * x_stride, inputs,
                                              {.high = all.high + r * all.stride,
                                               .low = all.low + r * all.stride,
                                               .stride = all.stride,
                                               .scales = all.scales + r * groups,
                                               .sums = all.sums + 2 * r * groups,
                                               .scaled_sums = all.scaled_sums + r * groups});
  });
  return all;
}

Int8Rows round_to_int8(OpContext& ctx, const float* x, std::int64_t x_stride,
                       const InputBlocks& blocks, std::int64_t rows, std::int64_t inputs,
                       Arena& workspace) {
  const std::int64_t groups = inputs / kGroupInputs;
  Int8Rows all;
  all.stride = byte_row_stride(inputs);
  all.codes = workspace.array<std::int8_t>(rows * all.stride);
  all.scales = workspace.array<float>(rows * groups);
  all.sums = workspace.array<std::int16_t>(2 * rows * groups);
  all.scaled_sums = workspace.array<float>(rows * groups);
  all.offsets = workspace.array<std::int32_t>(rows * groups);
  for_each_row(ctx, blocks, rows * inputs, [&](std::int64_t r, std::int64_t, std::int64_t) {
    ctx.table.matmul.quantize_row_int8(x + r * x_stride, inputs,
                                       {.codes = all.codes + r * all.stride,
                                        .stride = all.stride,
                                        .scales = all.scales + r * groups,
                                        .sums = all.sums + 2 * r * groups,
                                        .scaled_sums = all.scaled_sums + r * groups,
                                        .offsets = all.offsets + r * groups});
  });
  return all;
}

// The rows with their inputs in another order. Where weights have one, none of the call is dense:
// what those take of the workspace is free, or, in float32, what rounded inputs do
// (matmul_workspace_bytes()).
const float* in_order(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                      std::int64_t inputs, const std::int32_t* order, Arena& workspace) {
  float* const ordered = workspace.array<float>(rows * inputs);
  const auto gather = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t k = 0; k < inputs; ++k) {
        ordered[row * inputs + k] = x[row * x_stride + order[k]];
      }
    }
  };
  if (rows * inputs <= kSerialValues) {
    gather(0, rows, 0);
  } else {
    ctx.pool.parallel_for(rows, 1, gather);
  }
  return ordered;
}

// The same inputs from a row on; in blocks, from the first row of a block on.
Bf16Rows from_row(const Bf16Rows& x, std::int64_t row) {
  return {.values = x.values + row * x.stride, .stride = x.stride};
}

Int16Rows from_row(const Int16Rows& x, std::int64_t row, std::int64_t inputs) {
  const std::int64_t group = row * (inputs / kGroupInputs);
  return {.codes = x.codes + row * inputs,
          .scales = x.scales + group,
          .sums = x.sums + 2 * group,
          .scaled_sums = x.scaled_sums + group};
}

Int16ByteRows from_row(const Int16ByteRows& x, std::int64_t row, std::int64_t inputs) {
  const std::int64_t group = row * (inputs / kGroupInputs);
  return {.high = x.high + row * x.stride,
          .low = x.low + row * x.stride,
          .stride = x.stride,
          .scales = x.scales + group,
          .sums = x.sums + 2 * group,
          .scaled_sums = x.scaled_sums + group};
}

Int8Rows from_row(const Int8Rows& x, std::int64_t row, std::int64_t inputs) {
  const std::int64_t group = row * (inputs / kGroupInputs);
  return {.codes = x.codes + row * x.stride,
          .stride = x.stride,
          .scales = x.scales + group,
          .sums = x.sums + 2 * group,
          .scaled_sums = x.scaled_sums + group,
          .offsets = x.offsets + group};
}

}  // namespace

KernelChoice::KernelChoice(const MatmulKernels& kernels, ActivationMode mode, std::int64_t rows,
                           std::span<const MatmulPart> parts)
    : kernels_(kernels), mode_(mode), many_(rows > kMaxDirectRows) {
  // Where a part wants float32, those of bfloat16 share it: room for one of the two is enough.
  bf16_ = mode != ActivationMode::kFloat32 &&
          std::none_of(parts.begin(), parts.end(), [&](const MatmulPart& part) {
            const WeightLayout layout = product_layout(part.weight->layout());
            return has_float_products(layout) && kernels.with_bf16[index(layout)] == nullptr;
          });
}

bool KernelChoice::has_int8(WeightLayout layout) const {
  return kernels_.with_int8[index(layout)] != nullptr;
}

InputForm KernelChoice::form(WeightLayout layout) const {
  layout = product_layout(layout);
  if (has_float_products(layout)) return bf16_ ? InputForm::kBf16 : InputForm::kFloat32;
  switch (mode_) {
    case ActivationMode::kFloat32:
      return InputForm::kFloat32;
    case ActivationMode::kInt8:
      if (has_int8(layout)) return InputForm::kInt8;
      break;
    case ActivationMode::kInt16:
      if (group_layout(layout).code_bits == 8 && has_int8(layout)) return InputForm::kInt8;
      break;
  }
  return many_ && kernels_.many_with_int16_bytes[index(layout)] != nullptr ? InputForm::kInt16Bytes
                                                                           : InputForm::kInt16;
}

MatmulKernel KernelChoice::kernel(WeightLayout layout) const {
  layout = product_layout(layout);
  switch (form(layout)) {
    case InputForm::kFloat32:
      return kernels_.with_float[index(layout)];
    case InputForm::kBf16:
      return kernels_.with_bf16[index(layout)];
    case InputForm::kInt16:
      return kernels_.with_int16[index(layout)];
    case InputForm::kInt16Bytes:
      return kernels_.many_with_int16_bytes[index(layout)];
    case InputForm::kInt8:
      break;
  }
  const MatmulKernel many = many_ ? kernels_.many_with_int8[index(layout)] : nullptr;
  return many != nullptr ? many : kernels_.with_int8[index(layout)];
}

MatmulCall::MatmulCall(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                       std::int64_t chunk_rows, ActivationMode mode,
                       std::span<const MatmulPart> parts, Arena& workspace)
    : choice_(ctx.table.matmul, mode, rows, parts),
      expanders_(ctx.table.matmul.expand),
      rows_(rows),
      chunk_rows_(chunk_rows),
      out_is_far_(rows > ctx.table.matmul.chunk_rows) {
  const std::int64_t inputs = parts[0].weight->inputs();
  const std::int64_t max_block_rows = ctx.table.matmul.max_block_rows;
  const InputBlocks blocks(rows, chunk_rows, max_block_rows);
  const auto wanted = [&](InputForm form) {
    return std::any_of(parts.begin(), parts.end(), [&](const MatmulPart& part) {
      return choice_.form(part.weight->layout()) == form;
    });
  };
  if (const std::int32_t* order = parts[0].weight->input_order(); order != nullptr) {
    x = in_order(ctx, x, x_stride, rows, inputs, order, workspace);
    x_stride = inputs;
  }
  inputs_.x = x;
  inputs_.x_stride = x_stride;
  const bool has_blocks = max_block_rows > 1 && rows > kMaxDirectRows;
  if (has_blocks && wanted(InputForm::kFloat32)) {
    inputs_.blocked = block_rows(ctx, x, x_stride, blocks, rows, inputs, workspace);
  }
  if (wanted(InputForm::kBf16)) {
    inputs_.bf16 = round_to_bf16(ctx, x, x_stride, blocks, rows, inputs, workspace);
  }
  if (wanted(InputForm::kInt16)) {
    inputs_.int16 = round_to_int16(ctx, x, x_stride, blocks, rows, inputs, workspace);
  }
  if (wanted(InputForm::kInt16Bytes)) {
    inputs_.int16_bytes = round_to_int16_bytes(ctx, x, x_stride, blocks, rows, inputs, workspace);
  }
  if (wanted(InputForm::kInt8)) {
    inputs_.int8 = round_to_int8(ctx, x, x_stride, blocks, rows, inputs, workspace);
  }
}

std::int64_t MatmulCall::max_panels() const {
  return rows_ <= kMaxDirectRows ? kMaxDirectChunkPanels : kMaxChunkPanels;
}

void MatmulCall::compute(const MatmulPart& part, const MatmulTile& tile) const {
  const PackedWeight& weight = *part.weight;
  const WeightLayout layout = weight.layout();
  const std::int64_t inputs = weight.inputs();
  const std::int64_t output = tile.panel_begin * kPanelOutputs;
  MatmulPanels panels;
  panels.layout = product_layout(layout);
  panels.span_shift = is_quantized(layout) ? group_layout(layout).span_shift : 0;
  panels.panels = weight.panel(tile.panel_begin);
  panels.panel_bytes = panel_bytes(layout, inputs);
  panels.num_panels = tile.panel_end - tile.panel_begin;
  panels.next_panels =
      tile.next_panels != nullptr ? tile.next_panels : weight.panel(tile.panel_end);
  panels.outputs = weight.outputs() - output;
  panels.inputs = inputs;
  panels.row_inputs = inputs;
  panels.rows = tile.row_end - tile.row_begin;
  panels.out = tile.out;
  panels.out_stride = tile.out_stride;
  panels.out_is_far = tile.out_is_far;
  if (part.bias != nullptr) panels.bias = part.bias + output;
  panels.accumulate = part.accumulate;
  const std::int64_t row = tile.row_begin;
  panels.x = inputs_.x + row * inputs_.x_stride;
  panels.x_stride = inputs_.x_stride;
  switch (choice_.form(layout)) {
    case InputForm::kFloat32:
      if (inputs_.blocked != nullptr) panels.blocked_x = inputs_.blocked + row * inputs;
      break;
    case InputForm::kBf16:
      panels.bf16_x = from_row(inputs_.bf16, row);
      break;
    case InputForm::kInt16:
      panels.int16_x = from_row(inputs_.int16, row, inputs);
      break;
    case InputForm::kInt16Bytes:
      panels.int16_bytes_x = from_row(inputs_.int16_bytes, row, inputs);
      break;
    case InputForm::kInt8:
      panels.int8_x = from_row(inputs_.int8, row, inputs);
      break;
  }
  const PanelExpander expand = expanders_[index(layout)];
  if (expand == nullptr) {
    choice_.kernel(layout)(panels);
  } else {
    multiply_expanded(panels, layout, expand, choice_.kernel(layout));
  }
}

SpanCost cost_of(std::span<const MatmulPart> parts, std::int64_t rows) {
  SpanCost cost;
  for (const MatmulPart& part : parts) {
    cost.bytes += part.weight->size_bytes();
    cost.operations +=
        2 * static_cast<std::uint64_t>(rows * part.weight->inputs() * part.weight->outputs());
  }
  return cost;
}

// Parts of one call may want their inputs as floats or bfloat16, in 16 bits and in 8.
std::uint64_t matmul_workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs) {
  const auto values = static_cast<std::uint64_t>(max_rows * max_inputs);
  const auto bf16_values = static_cast<std::uint64_t>(max_rows * bf16_row_stride(max_inputs));
  const std::uint64_t dense = std::max(values * sizeof(float), bf16_values * sizeof(std::uint16_t));
  const auto row_bytes = static_cast<std::uint64_t>(max_rows * byte_row_stride(max_inputs));
  const std::uint64_t group_bytes =
      4 * sizeof(float) + 3 * sizeof(std::int32_t) + 2 * sizeof(std::int16_t);
  const std::uint64_t groups = (values + kGroupInputs - 1) / kGroupInputs;
  constexpr std::uint64_t kArrays = 10;
  return dense + 3 * row_bytes + groups * group_bytes + kArrays * Arena::kAlignment;
}

}  // namespace quire
