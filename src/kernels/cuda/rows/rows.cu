// Ops on rows that move or combine numbers, one by one.
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/row_access.cuh"
#include "kernels/cuda/rows/rows.h"

namespace quire::cuda {
namespace {

constexpr unsigned kMoveThreads = 256;

struct GatherRow {
  const float* x;
  const std::int64_t* rows;
  float* out;
  __device__ void operator()(std::int64_t row, std::int64_t quad, std::int64_t cols) const {
    store_quad(load_quad(x + rows[row] * cols, quad, cols), quad, cols, out + row * cols);
  }
};

struct ScaleByPosition {
  PositionScale scale;
  const std::int32_t* positions;
  std::int64_t stride;
  float* x;
  __device__ void operator()(std::int64_t row, std::int64_t quad, std::int64_t cols) const {
    const auto position = static_cast<float>(positions[row] + scale.offset);
    const float factor = 1.0F + scale.growth * logf(1.0F + floorf(position / scale.interval));
    float* const values = x + row * stride;
    store_quad(map_quad(load_quad(values, quad, cols), [factor](float v) { return v * factor; }),
               quad, cols, values);
  }
};

struct AddPositionRow {
  const float* table;
  const std::int32_t* positions;
  float* x;
  __device__ void operator()(std::int64_t row, std::int64_t quad, std::int64_t cols) const {
    const float4 added = load_quad(table + positions[row] * cols, quad, cols);
    float* const values = x + row * cols;
    store_quad(
        join_quads(load_quad(values, quad, cols), added, [](float a, float b) { return a + b; }),
        quad, cols, values);
  }
};

struct AddGatedRow {
  const float* x;
  const float* gates;
  float* out;
  __device__ void operator()(std::int64_t row, std::int64_t quad, std::int64_t cols) const {
    const float factor = 1.0F / (1.0F + expf(-gates[row]));
    float* const sums = out + row * cols;
    store_quad(join_quads(load_quad(sums, quad, cols), load_quad(x + row * cols, quad, cols),
                          [factor](float a, float b) { return a + factor * b; }),
               quad, cols, sums);
  }
};

struct MultiplyRow {
  const float* by;
  std::int64_t by_stride;
  float* x;
  __device__ void operator()(std::int64_t row, std::int64_t quad, std::int64_t cols) const {
    float* const values = x + row * cols;
    store_quad(
        join_quads(load_quad(values, quad, cols), load_quad(by + row * by_stride, quad, cols),
                   [](float a, float b) { return a * b; }),
        quad, cols, values);
  }
};

// Blocks lie row by row, `blocks_of_row` each.
template <typename Op>
__global__ void map_rows(Op op, unsigned blocks_of_row, std::int64_t cols) {
  let_next_start();
  wait_for_previous();
  const std::int64_t row = blockIdx.x / blocks_of_row;
  const std::int64_t quad = std::int64_t{blockIdx.x % blocks_of_row} * kMoveThreads + threadIdx.x;
  if (4 * quad < cols) op(row, quad, cols);
}

template <typename Op>
void launch_rows(const Launch& launch, const Op& op, std::int64_t rows, std::int64_t cols) {
  if (rows == 0 || cols == 0) return;
  constexpr std::int64_t kOfBlock = std::int64_t{4} * kMoveThreads;
  const auto blocks_of_row = static_cast<unsigned>((cols + kOfBlock - 1) / kOfBlock);
  launch_dependent(map_rows<Op>, static_cast<unsigned>(rows) * blocks_of_row, kMoveThreads, 0,
                   launch.stream, op, blocks_of_row, cols);
}

}  // namespace

// No op on rows needs any: blocks of a row talk to each other through shared memory.
std::uint64_t rows_workspace_bytes(const StreamLimits&) { return 0; }

void gather_rows(const Launch& launch, const float* x, const std::int64_t* rows,
                 std::int64_t num_rows, std::int64_t cols, float* out) {
  launch_rows(launch, GatherRow{x, rows, out}, num_rows, cols);
}

void scale_by_position(const Launch& launch, const PositionScale& scale,
                       const std::int32_t* positions, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, float* x) {
  launch_rows(launch, ScaleByPosition{scale, positions, stride, x}, rows, cols);
}

void add_position_rows(const Launch& launch, const float* table, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, float* x) {
  launch_rows(launch, AddPositionRow{table, positions, x}, rows, cols);
}

void add_gated(const Launch& launch, const float* x, const float* gates, std::int64_t rows,
               std::int64_t cols, float* out) {
  launch_rows(launch, AddGatedRow{x, gates, out}, rows, cols);
}

void multiply_rows(const Launch& launch, const float* by, std::int64_t by_stride, std::int64_t rows,
                   std::int64_t cols, float* x) {
  launch_rows(launch, MultiplyRow{by, by_stride, x}, rows, cols);
}

}  // namespace quire::cuda
