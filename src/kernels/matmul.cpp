// Matrix products and embedding look-up over packed weights: one fork and join a call, panels
// handed out in fixed chunks to whichever worker is free.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/matmul_kernel.h"
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

bool is_quantized(WeightLayout layout) {
  return layout == WeightLayout::kInt8 || layout == WeightLayout::kUint4 ||
         layout == WeightLayout::kInt4;
}

// The workspace, cut into codes, scales, sums and scaled sums.
Int8Rows cut_workspace(std::span<std::byte> workspace, std::int64_t rows, std::int64_t inputs) {
  const auto values = static_cast<std::uint64_t>(rows * inputs);
  const std::uint64_t codes = align_up(values);
  const std::uint64_t scales = align_up(values / kGroupInputs * sizeof(float));
  assert(codes + 3 * scales <= workspace.size());
  Int8Rows result;
  result.codes = reinterpret_cast<std::int8_t*>(workspace.data());
  result.scales = reinterpret_cast<float*>(workspace.data() + codes);
  result.sums = reinterpret_cast<std::int32_t*>(workspace.data() + codes + scales);
  result.scaled_sums = reinterpret_cast<float*>(workspace.data() + codes + 2 * scales);
  return result;
}

void quantize_rows(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                   std::int64_t inputs, const Int8Rows& out) {
  const std::int64_t groups = inputs / kGroupInputs;
  const auto quantize = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      ctx.table.matmul.quantize_row(x + r * x_stride, inputs,
                                    {.codes = out.codes + r * inputs,
                                     .scales = out.scales + r * groups,
                                     .sums = out.sums + r * groups,
                                     .scaled_sums = out.scaled_sums + r * groups});
    }
  };
  if (rows * inputs <= kSerialQuantizeValues) {
    quantize(0, rows, 0);
  } else {
    ctx.pool.parallel_for(rows, 8, quantize);
  }
}

using Kernel = void (*)(const MatmulPanels&);

Kernel select_kernel(const MatmulKernels& kernels, WeightLayout layout, ActivationMode mode) {
  const bool int8 = mode == ActivationMode::kInt8;
  switch (layout) {
    case WeightLayout::kF32:
      return kernels.f32;
    case WeightLayout::kF16:
      return kernels.f16;
    case WeightLayout::kBF16:
      return kernels.bf16;
    case WeightLayout::kInt8:
      return int8 ? kernels.int8_int8 : kernels.int8_float;
    case WeightLayout::kUint4:
      return int8 ? kernels.uint4_int8 : kernels.uint4_float;
    case WeightLayout::kInt4:
      return int8 ? kernels.int4_int8 : kernels.int4_float;
  }
  return nullptr;
}

}  // namespace

std::uint64_t matmul_workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs) {
  const auto values = static_cast<std::uint64_t>(max_rows * max_inputs);
  return align_up(values) + 3 * align_up(values / kGroupInputs * sizeof(float) + sizeof(float));
}

void matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts) {
  const std::int64_t inputs = parts[0].weight->inputs();
  const bool int8 = mode == ActivationMode::kInt8 &&
                    std::any_of(parts.begin(), parts.end(), [](const MatmulPart& part) {
                      return is_quantized(part.weight->layout());
                    });
  Int8Rows int8_rows;
  if (int8) {
    int8_rows = cut_workspace(ctx.workspace, rows, inputs);
    quantize_rows(ctx, x, x_stride, rows, inputs, int8_rows);
  }
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
      const MatmulPanels call = {
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
          .int8_x = int8_rows,
          .out = part->out,
          .out_stride = part->out_stride,
          .bias = part->bias,
          .accumulate = part->accumulate};
      select_kernel(ctx.table.matmul, weight.layout(), mode)(call);
    }
  });
}

void embedding(OpContext& /*ctx*/, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out) {
  const std::int64_t inputs = table.inputs();
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    table.decode_output(token_ids[t], out + t * inputs);
  }
}

}  // namespace quire
