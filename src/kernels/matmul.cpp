// Matrix products and embedding look-up over packed weights: one fork and join a call, panels
// handed out in fixed chunks to whichever worker is free.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/matmul_kernel.h"
#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Below this many values to round, one worker does it sooner than several can be woken.
constexpr std::int64_t kSerialQuantizeValues = 16 * 1024;

// A chunk of panels handed to a worker: small enough to balance, large enough to stream.
constexpr std::int64_t kPanelsPerChunk = 8;

constexpr Stage kEmbeddingStage = {StageKind::kKernel, "embedding"};

// The weights are read once for all rows. What rounding and expanding add is not counted.
SpanCost cost_of(std::span<const MatmulPart> parts, std::int64_t rows) {
  SpanCost cost;
  for (const MatmulPart& part : parts) {
    cost.bytes += part.weight->size_bytes();
    cost.operations +=
        2 * static_cast<std::uint64_t>(rows * part.weight->inputs() * part.weight->outputs());
  }
  return cost;
}

// Input rows as a sum of two int8 roundings: the values, and what the first rounding left.
struct RoundedRows {
  Int8Rows first;
  Int8Rows rest;
};

std::uint64_t int8_rows_bytes(std::int64_t rows, std::int64_t inputs) {
  const auto values = static_cast<std::uint64_t>(rows * inputs);
  return align_up(values) + 3 * align_up(values / kGroupInputs * sizeof(float));
}

// A part of the workspace, cut into codes, scales, sums (two 16-bit ones a group) and scaled sums.
Int8Rows cut_rows(std::span<std::byte> workspace, std::int64_t rows, std::int64_t inputs) {
  const auto values = static_cast<std::uint64_t>(rows * inputs);
  const std::uint64_t codes = align_up(values);
  const std::uint64_t scales = align_up(values / kGroupInputs * sizeof(float));
  assert(codes + 3 * scales <= workspace.size());
  Int8Rows result;
  result.codes = reinterpret_cast<std::int8_t*>(workspace.data());
  result.scales = reinterpret_cast<float*>(workspace.data() + codes);
  result.sums = reinterpret_cast<std::int16_t*>(workspace.data() + codes + scales);
  result.scaled_sums = reinterpret_cast<float*>(workspace.data() + codes + 2 * scales);
  return result;
}

Int8Rows row_of(const Int8Rows& rows, std::int64_t row, std::int64_t inputs) {
  const std::int64_t groups = inputs / kGroupInputs;
  return {.codes = rows.codes + row * inputs,
          .scales = rows.scales + row * groups,
          .sums = rows.sums + row * groups * 2,
          .scaled_sums = rows.scaled_sums + row * groups};
}

// The workspace holds both roundings, then a row of residuals for each worker.
RoundedRows round_rows(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                       std::int64_t inputs, bool twice) {
  const std::uint64_t bytes = int8_rows_bytes(rows, inputs);
  const RoundedRows result = {cut_rows(ctx.workspace, rows, inputs),
                              cut_rows(ctx.workspace.subspan(bytes), rows, inputs)};
  auto* residuals = reinterpret_cast<float*>(ctx.workspace.data() + 2 * bytes);
  const auto round = [&](std::int64_t begin, std::int64_t end, int worker) {
    float* residual = residuals + worker * inputs;
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = x + r * x_stride;
      const Int8Rows first = row_of(result.first, r, inputs);
      ctx.table.matmul.quantize_row(row, inputs, first);
      if (!twice) continue;
      for (std::int64_t k = 0; k < inputs; ++k) {
        residual[k] = row[k] - first.scales[k / kGroupInputs] * static_cast<float>(first.codes[k]);
      }
      ctx.table.matmul.quantize_row(residual, inputs, row_of(result.rest, r, inputs));
    }
  };
  if (rows * inputs <= kSerialQuantizeValues) {
    round(0, rows, 0);
  } else {
    ctx.pool.parallel_for(rows, 8, round);
  }
  return result;
}

}  // namespace

std::uint64_t matmul_workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs,
                                     int num_threads) {
  return 2 * (int8_rows_bytes(max_rows, max_inputs) + 2 * kAlignment) +
         static_cast<std::uint64_t>(num_threads * max_inputs) * sizeof(float);
}

void matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts, const Stage& stage) {
  const OpSpan span(ctx, stage);
  if (span.get() != nullptr) span.get()->cost = cost_of(parts, rows);
  const std::int64_t inputs = parts[0].weight->inputs();
  const bool twice = mode == ActivationMode::kInt8;
  const bool int8 = mode != ActivationMode::kFloat32 &&
                    std::any_of(parts.begin(), parts.end(), [](const MatmulPart& part) {
                      return is_quantized(part.weight->layout());
                    });
  RoundedRows rounded;
  if (int8) rounded = round_rows(ctx, x, x_stride, rows, inputs, twice);
  std::int64_t total_chunks = 0;
  for (const MatmulPart& part : parts) {
    total_chunks += (part.weight->num_panels() + kPanelsPerChunk - 1) / kPanelsPerChunk;
  }
  ctx.pool.parallel_for(total_chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::int64_t index = chunk;
      const MatmulPart* part = parts.data();
      for (;; ++part) {
        const std::int64_t chunks =
            (part->weight->num_panels() + kPanelsPerChunk - 1) / kPanelsPerChunk;
        if (index < chunks) break;
        index -= chunks;
      }
      const PackedWeight& weight = *part->weight;
      MatmulPanels call = {
          .layout = weight.layout(),
          .panels = weight.panel(0),
          .panel_bytes = panel_bytes(weight.layout(), inputs),
          .outputs = weight.outputs(),
          .inputs = inputs,
          .panel_begin = index * kPanelsPerChunk,
          .panel_end = std::min((index + 1) * kPanelsPerChunk, weight.num_panels()),
          .rows = rows,
          .x = x,
          .x_stride = x_stride,
          .int8_x = rounded.first,
          .out = part->out,
          .out_stride = part->out_stride,
          .bias = part->bias,
          .accumulate = part->accumulate};
      const bool rounded_inputs = int8 && is_quantized(weight.layout());
      const MatmulKernels& kernels = ctx.table.matmul;
      const auto index_of_layout = static_cast<std::size_t>(weight.layout());
      const MatmulKernel kernel =
          (rounded_inputs ? kernels.with_int8 : kernels.with_float)[index_of_layout];
      kernel(call);
      if (rounded_inputs && twice) {
        // The chunk's panels are in the cache now: the second pass costs arithmetic, no reading.
        call.int8_x = rounded.rest;
        call.bias = nullptr;
        call.accumulate = true;
        kernel(call);
      }
    }
  });
}

void embedding(OpContext& ctx, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out) {
  const OpSpan span(ctx, kEmbeddingStage);
  const std::int64_t inputs = table.inputs();
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    table.decode_output(token_ids[t], out + t * inputs);
  }
}

}  // namespace quire
