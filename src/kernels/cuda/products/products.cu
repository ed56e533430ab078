// Which kernels compute a product: those for few rows, for many, or those with float32 inputs.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/products/experts.h"
#include "kernels/cuda/products/float_products.h"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/gated_activation.cuh"
#include "kernels/cuda/products/head_products.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/products/products_few.h"
#include "kernels/cuda/products/products_many.h"
#include "kernels/cuda/products/rounded_rows.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kAlignment = 256;

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool on_tensor_cores(WeightLayout layout, ActivationMode mode) {
  return mode != ActivationMode::kFloat32 && multiplies_on_tensor_cores(layout);
}

bool are_many(WeightLayout layout, std::int64_t rows) {
  return rows > kMaxFewRows && multiplies_many(layout);
}

std::uint64_t many_rows_bytes(std::int64_t rows, std::int64_t inputs) {
  return aligned(static_cast<std::uint64_t>(rows * padded_inputs(inputs)) * sizeof(std::uint16_t));
}

std::uint64_t many_workspace_bytes(std::int64_t rows, std::int64_t inputs) {
  return many_rows_bytes(rows, inputs) + aligned(input_sums_bytes(rows, inputs, kGroupInputs));
}

// Rounds rows for the kernels of many. The rest of the workspace is theirs.
ManyRows round_many(Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                    const PackedWeight& weight) {
  const FragmentForm form = fragment_form(weight.layout());
  auto* const rounded = reinterpret_cast<std::uint16_t*>(launch.workspace);
  InputSums sums;
  if (form.has_minimum) {
    sums.sum_inputs = form.sum_inputs();
    sums.values =
        reinterpret_cast<float*>(launch.workspace + many_rows_bytes(rows, weight.inputs()));
  }
  round_rows(launch, x, x_stride, rows, weight.inputs(), weight.input_order(), form.places(),
             rounded, sums);
  const std::uint64_t taken = many_workspace_bytes(rows, weight.inputs());
  launch.workspace += taken;
  launch.workspace_bytes -= taken;
  return {.x = rounded,
          .padded_inputs = padded_inputs(weight.inputs()),
          .sums = sums.values,
          .rows = rows};
}

// Of parts of one layout, at most kMaxFewRows rows at a time.
void product_in_chunks(const Launch& launch, const float* x, std::int64_t x_stride,
                       std::int64_t rows, std::span<const MatmulPart> parts) {
  for (const MatmulPart& part : parts) {
    for (std::int64_t row = 0; row < rows; row += kMaxFewRows) {
      MatmulPart chunk = part;
      chunk.out += row * part.out_stride;
      product_of_few(launch, x + row * x_stride, x_stride, std::min(kMaxFewRows, rows - row),
                     {&chunk, 1});
    }
  }
}

// Of parts of one layout.
void product(Launch launch, const float* x, std::int64_t x_stride, std::int64_t rows,
             ActivationMode mode, std::span<const MatmulPart> parts) {
  const PackedWeight& weight = *parts[0].weight;
  if (!on_tensor_cores(weight.layout(), mode)) {
    for (const MatmulPart& part : parts) float_product(launch, x, x_stride, rows, part);
  } else if (rows <= kMaxFewRows) {
    product_of_few(launch, x, x_stride, rows, parts);
  } else if (are_many(weight.layout(), rows)) {
    const ManyRows many = round_many(launch, x, x_stride, rows, weight);
    for (const MatmulPart& part : parts) product_of_many(launch, many, part);
  } else {
    product_in_chunks(launch, x, x_stride, rows, parts);
  }
}

// out[i] = gate(out[i], up[i]).
__global__ void apply_gate(GateFunction gate, std::int64_t count, const float* up, float* out) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = gate(out[i], up[i]);
}

// Both products one after the other, of as many rows at a time as there is room for.
void gated_in_two(Launch launch, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out) {
  constexpr unsigned kThreads = 256;
  const std::int64_t inputs = products.gate->inputs();
  const std::int64_t outputs = products.gate->outputs();
  const std::uint64_t row_bytes =
      static_cast<std::uint64_t>(outputs) * sizeof(float) + many_workspace_bytes(1, inputs);
  const auto fit = static_cast<std::int64_t>(launch.workspace_bytes / 2 / row_bytes);
  const std::int64_t chunk = std::max<std::int64_t>(std::min(fit, rows), 1);
  auto* const up = reinterpret_cast<float*>(launch.workspace);
  const std::uint64_t taken = aligned(static_cast<std::uint64_t>(chunk * outputs) * sizeof(float));
  launch.workspace += taken;
  launch.workspace_bytes -= taken;
  for (std::int64_t row = 0; row < rows; row += chunk) {
    const std::int64_t count = std::min(chunk, rows - row);
    float* const gate = out + row * outputs;
    const MatmulPart parts[] = {
        {.weight = products.gate, .out = gate, .out_stride = outputs, .bias = products.gate_bias},
        {.weight = products.up, .out = up, .out_stride = outputs, .bias = products.up_bias}};
    matmul(launch, x + row * inputs, inputs, count, mode, parts);
    const std::int64_t values = count * outputs;
    apply_gate<<<static_cast<unsigned>((values + kThreads - 1) / kThreads), kThreads, 0,
                 launch.stream>>>(GateFunction(products.activation, products.clamped), values, up,
                                  gate);
  }
}

}  // namespace

std::uint64_t products_workspace_bytes(const StreamLimits& limits) {
  const std::int64_t rows = limits.max_rows;
  // gated_in_two() has room for rows of as many outputs as any product has inputs.
  const std::uint64_t gated =
      2 * aligned(static_cast<std::uint64_t>(kMaxFewRows * limits.max_inputs) * sizeof(float));
  const std::uint64_t dense =
      std::max(many_workspace_bytes(rows, limits.max_inputs), few_workspace_bytes(limits)) + gated;
  return std::max({dense, experts_workspace_bytes(limits), head_products_workspace_bytes(limits)});
}

void matmul(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts) {
  if (rows == 0) return;
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t end = first + 1;
    const WeightLayout layout = parts[first].weight->layout();
    while (end < parts.size() && parts[end].weight->layout() == layout) ++end;
    product(launch, x, x_stride, rows, mode, parts.subspan(first, end - first));
    first = end;
  }
}

void gated_matmul(const Launch& launch, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out) {
  if (rows == 0) return;
  const WeightLayout layout = products.gate->layout();
  if (!on_tensor_cores(layout, mode) || products.up->layout() != layout) {
    gated_in_two(launch, x, rows, mode, products, out);
  } else if (are_many(layout, rows)) {
    Launch rest = launch;
    const ManyRows many = round_many(rest, x, products.gate->inputs(), rows, *products.gate);
    gated_product_of_many(rest, many, products, out);
  } else {
    const std::int64_t inputs = products.gate->inputs();
    const std::int64_t outputs = products.gate->outputs();
    for (std::int64_t row = 0; row < rows; row += kMaxFewRows) {
      gated_product_of_few(launch, x + row * inputs, std::min(kMaxFewRows, rows - row), products,
                           out + row * outputs);
    }
  }
}

}  // namespace quire::cuda
