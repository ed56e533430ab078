#include "base/checked.h"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/expert_steps.h"

namespace quire::cuda {
namespace {

constexpr int kStepThreads = 256;

// Whether the expert is one of the launch's; its order of inputs.
__device__ bool find_order(const InputOrders& orders, std::int32_t expert,
                           const std::int32_t*& order) {
  const std::int32_t index = expert - orders.first_expert;
  if (index < 0 || index >= orders.num_experts) return false;
  order = orders.of[index];
  return true;
}

// blockIdx.x: position; blockIdx.y: inputs.
__global__ void __launch_bounds__(kStepThreads)
    gather_pairs_kernel(const float* x, std::int64_t inputs, const ExpertLists lists,
                        const float* weights, const __grid_constant__ InputOrders orders,
                        float* out) {
  let_next_start();
  wait_for_previous();
  const std::int64_t k = std::int64_t{blockIdx.y} * kStepThreads + threadIdx.x;
  if (k >= inputs) return;
  const std::int64_t position = blockIdx.x;
  const std::int32_t* order = nullptr;
  if (!find_order(orders, lists.expert_at[position], order)) return;
  const float factor = weights == nullptr ? 1.0F : weights[lists.pair_at[position]];
  const float* const row = x + lists.row_at[position] * inputs;
  out[position * inputs + k] = factor * row[order == nullptr ? k : order[k]];
}

// The same.
__global__ void __launch_bounds__(kStepThreads)
    activate_pairs_kernel(const float* gate, const float* up, std::int64_t width,
                          const GateFunction function, const ExpertLists lists,
                          const __grid_constant__ InputOrders orders, float* out) {
  let_next_start();
  wait_for_previous();
  const std::int64_t k = std::int64_t{blockIdx.y} * kStepThreads + threadIdx.x;
  if (k >= width) return;
  const std::int64_t first = blockIdx.x * width;
  const std::int32_t* order = nullptr;
  if (!find_order(orders, lists.expert_at[blockIdx.x], order)) return;
  const std::int64_t from = first + (order == nullptr ? k : order[k]);
  out[first + k] = function(gate[from], up[from]);
}

// blockIdx.x: row; blockIdx.y: columns. Positions are in the order of the experts.
__global__ void __launch_bounds__(kStepThreads)
    add_pairs_kernel(const float* y, std::int32_t experts_per_row, std::int64_t cols,
                     const ExpertLists lists, const float* weights, float* out) {
  extern __shared__ std::int32_t pairs[];  // [experts_per_row]: those of the row, sorted
  let_next_start();
  wait_for_previous();
  const std::int64_t row = blockIdx.x;
  const std::int32_t* const positions = lists.position_of + row * experts_per_row;
  for (int i = static_cast<int>(threadIdx.x); i < experts_per_row; i += kStepThreads) {
    int before = 0;
    for (int j = 0; j < experts_per_row; ++j) before += positions[j] < positions[i] ? 1 : 0;
    pairs[before] = i;
  }
  __syncthreads();
  const std::int64_t col = std::int64_t{blockIdx.y} * kStepThreads + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0F;
  for (int i = 0; i < experts_per_row; ++i) {
    const int rank = pairs[i];
    const float weight = weights == nullptr ? 1.0F : weights[row * experts_per_row + rank];
    sum = fmaf(weight, y[positions[rank] * cols + col], sum);
  }
  out[row * cols + col] = sum;
}

dim3 grid_of(std::int64_t rows, std::int64_t cols) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(cols, kStepThreads)), 1};
}

}  // namespace

void gather_pairs(const Launch& launch, const float* x, std::int64_t pairs, std::int64_t inputs,
                  const ExpertLists& lists, const float* weights, const InputOrders& orders,
                  float* out) {
  launch_dependent(gather_pairs_kernel, grid_of(pairs, inputs), dim3(kStepThreads), 0,
                   launch.stream, x, inputs, lists, weights, orders, out);
}

void activate_pairs(const Launch& launch, const float* gate, const float* up, std::int64_t pairs,
                    std::int64_t width, const GateFunction& function, const ExpertLists& lists,
                    const InputOrders& orders, float* out) {
  launch_dependent(activate_pairs_kernel, grid_of(pairs, width), dim3(kStepThreads), 0,
                   launch.stream, gate, up, width, function, lists, orders, out);
}

void add_pairs(const Launch& launch, const float* y, std::int64_t rows,
               std::int64_t experts_per_row, std::int64_t cols, const ExpertLists& lists,
               const float* weights, float* out) {
  launch_dependent(add_pairs_kernel, grid_of(rows, cols), dim3(kStepThreads),
                   static_cast<std::size_t>(experts_per_row) * sizeof(std::int32_t), launch.stream,
                   y, static_cast<std::int32_t>(experts_per_row), cols, lists, weights, out);
}

}  // namespace quire::cuda
