// Alternating updates of a token's streams, and the gates that go with them in Gemma 3n.
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/row_access.cuh"
#include "kernels/cuda/rows/rows.h"

namespace quire::cuda {
namespace {

constexpr unsigned kStreamThreads = 128;
constexpr int kMaxPairs = static_cast<int>(kMaxStreams * kMaxStreams);

// factors[i] = sum_k weight[i][k] m[k] of a row's modalities m, for i < count <= kMaxPairs.
__device__ void weigh_modalities(const AltUpArgs& args, std::int64_t row, std::int64_t count,
                                 float* factors) {
  __shared__ float modalities[kMaxStreams];
  const std::int64_t streams = args.num_streams;
  if (threadIdx.x < streams) {
    modalities[threadIdx.x] = tanhf(args.router[row * streams + threadIdx.x] * args.router_scale);
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    float sum = 0.0F;
    for (std::int64_t k = 0; k < streams; ++k) sum += args.weight[i * streams + k] * modalities[k];
    factors[i] = sum;
  }
  __syncthreads();
}

__device__ float4 add_scaled(float4 sum, float factor, float4 values) {
  return join_quads(sum, values, [factor](float a, float b) { return a + factor * b; });
}

// Blocks along x have the row's columns, those along y the rows.
__global__ void predict_columns(std::int64_t rows, std::int64_t cols, AltUpArgs args, float* out) {
  __shared__ float factors[kMaxPairs];
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    weigh_modalities(args, row, args.num_streams * args.num_streams, factors);
    const std::int64_t quad = std::int64_t{blockIdx.x} * kStreamThreads + threadIdx.x;
    if (4 * quad < cols) {
      float4 before[kMaxStreams];
      for (int j = 0; j < kMaxStreams; ++j) {
        if (j < args.num_streams) {
          before[j] = load_quad(args.streams + (j * rows + row) * cols, quad, cols);
        }
      }
      for (int i = 0; i < args.num_streams; ++i) {
        float* const stream = args.streams + (i * rows + row) * cols;
        float4 sum = load_quad(stream, quad, cols);
        for (int j = 0; j < kMaxStreams; ++j) {
          if (j < args.num_streams) {
            sum = add_scaled(sum, factors[i * args.num_streams + j], before[j]);
          }
        }
        store_quad(sum, quad, cols, stream);
        if (i == args.active) store_quad(sum, quad, cols, out + row * cols);
      }
    }
    __syncthreads();  // the factors are read before the next row's are written
  }
}

__global__ void correct_columns(std::int64_t rows, std::int64_t cols, AltUpArgs args,
                                const float* scale, float* x) {
  __shared__ float factors[kMaxStreams];
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    weigh_modalities(args, row, args.num_streams, factors);
    const std::int64_t quad = std::int64_t{blockIdx.x} * kStreamThreads + threadIdx.x;
    if (4 * quad < cols) {
      float* const values = x + row * cols;
      const float4 active = load_quad(args.streams + (args.active * rows + row) * cols, quad, cols);
      const float4 change =
          join_quads(load_quad(values, quad, cols), active, [](float a, float b) { return a - b; });
      for (std::int64_t i = 0; i < args.num_streams; ++i) {
        float* const stream = args.streams + (i * rows + row) * cols;
        const float4 sum = add_scaled(load_quad(stream, quad, cols), 1.0F + factors[i], change);
        store_quad(sum, quad, cols, stream);
        if (i != args.active) continue;
        store_quad(scale == nullptr ? sum
                                    : join_quads(sum, load_quad(scale, quad, cols),
                                                 [](float a, float b) { return a * b; }),
                   quad, cols, values);
      }
    }
    __syncthreads();
  }
}

// Sums in double: what they are for depends on small differences.
template <typename F>
__device__ double sum_of_row(const float* row, std::int64_t cols, double* parts, const F& fn) {
  double sum = 0.0;
  for (std::int64_t quad = threadIdx.x; 4 * quad < cols; quad += blockDim.x) {
    for_each_of_quad(load_quad(row, quad, cols), quad, cols,
                     [&](float value, std::int64_t) { sum += fn(double{value}); });
  }
  return sum_of_row_threads(sum, parts);
}

__global__ void keep_largest_of_rows(float deviations, std::int64_t rows, std::int64_t cols,
                                     float* x) {
  __shared__ double sums[32];
  __shared__ double squares[32];
  let_next_start();
  wait_for_previous();
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  x += row * cols;
  const auto count = static_cast<double>(cols);
  const double mean = sum_of_row(x, cols, sums, [](double v) { return v; }) / count;
  const double variance =
      sum_of_row(x, cols, squares, [mean](double v) { return (v - mean) * (v - mean); }) / count;
  const auto cutoff = static_cast<float>(mean + double{deviations} * sqrt(variance));
  for (std::int64_t quad = threadIdx.x; 4 * quad < cols; quad += blockDim.x) {
    const float4 kept = map_quad(load_quad(x, quad, cols), [cutoff](float value) {
      const float above = value - cutoff;
      return above < 0.0F ? 0.0F : above;  // NaN stays
    });
    store_quad(kept, quad, cols, x);
  }
}

__global__ void match_rms_of_rows(const float* like, float floor, std::int64_t rows,
                                  std::int64_t cols, float* x) {
  __shared__ double of_like[32];
  __shared__ double of_own[32];
  let_next_start();
  wait_for_previous();
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  x += row * cols;
  like += row * cols;
  const auto count = static_cast<double>(cols);
  const auto square = [](double v) { return v * v; };
  const double own = sum_of_row(x, cols, of_own, square) / count;
  const double goal = sum_of_row(like, cols, of_like, square) / count;
  const double divisor = own < double{floor} ? double{floor} : own;  // NaN stays
  const auto factor = static_cast<float>(sqrt(goal / divisor));
  for (std::int64_t quad = threadIdx.x; 4 * quad < cols; quad += blockDim.x) {
    store_quad(map_quad(load_quad(x, quad, cols), [factor](float v) { return v * factor; }), quad,
               cols, x);
  }
}

dim3 blocks_of_streams(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kOfBlock = std::int64_t{4} * kStreamThreads;
  constexpr std::int64_t kMostRows = 65535;
  return {static_cast<unsigned>((cols + kOfBlock - 1) / kOfBlock),
          static_cast<unsigned>(rows < kMostRows ? rows : kMostRows), 1};
}

}  // namespace

void predict_streams(const Launch& launch, std::int64_t rows, std::int64_t cols,
                     const AltUpArgs& args, float* out) {
  if (rows == 0 || cols == 0) return;
  launch_dependent(predict_columns, blocks_of_streams(rows, cols), kStreamThreads, 0, launch.stream,
                   rows, cols, args, out);
}

void correct_streams(const Launch& launch, std::int64_t rows, std::int64_t cols,
                     const AltUpArgs& args, const float* scale, float* x) {
  if (rows == 0 || cols == 0) return;
  launch_dependent(correct_columns, blocks_of_streams(rows, cols), kStreamThreads, 0, launch.stream,
                   rows, cols, args, scale, x);
}

void keep_largest(const Launch& launch, float deviations, std::int64_t rows, std::int64_t cols,
                  float* x) {
  if (rows == 0 || cols == 0) return;
  const RowThreads threads = RowThreads::of(cols);
  launch_dependent(keep_largest_of_rows, threads.grid(rows), threads.block(), 0, launch.stream,
                   deviations, rows, cols, x);
}

void match_rms(const Launch& launch, const float* like, float floor, std::int64_t rows,
               std::int64_t cols, float* x) {
  if (rows == 0 || cols == 0) return;
  const RowThreads threads = RowThreads::of(cols);
  launch_dependent(match_rms_of_rows, threads.grid(rows), threads.block(), 0, launch.stream, like,
                   floor, rows, cols, x);
}

}  // namespace quire::cuda
