#include "base/checked.h"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/float_panel.cuh"
#include "kernels/cuda/products/float_products.h"

namespace quire::cuda {
namespace {

struct FloatProduct {
  PanelForm form;
  const std::uint8_t* panels = nullptr;
  const std::int32_t* order = nullptr;  // [form.inputs] or nullptr
  std::int64_t outputs = 0;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  bool is_aligned = false;  // FloatRows::is_aligned
  std::int64_t rows = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  const float* bias = nullptr;
  bool accumulate = false;
};

// Of rows from `row` on; those that there are not have the inputs of the last.
template <int kRows>
__device__ FloatRows<kRows> rows_from(const FloatProduct& product, std::int64_t row) {
  FloatRows<kRows> rows = {
      .order = product.order, .inputs = product.form.inputs, .is_aligned = product.is_aligned};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    rows.x[i] = product.x + min(row + i, product.rows - 1) * product.x_stride;
  }
  return rows;
}

__device__ void store_sum(const FloatProduct& product, std::int64_t row, std::int64_t output,
                          float sum) {
  if (row >= product.rows || output >= product.outputs) return;
  if (product.bias != nullptr) sum += product.bias[output];
  float* const out = product.out + row * product.out_stride + output;
  *out = product.accumulate ? *out + sum : sum;
}

// blockIdx.x: panel; blockIdx.y: rows.
template <WeightKind kKind, int kRows>
__global__ void __launch_bounds__(kFloatPanelThreads)
    few_floats_kernel(const __grid_constant__ FloatProduct product) {
  __shared__ FloatPanelSums<kRows> sums;
  let_next_start();
  const std::int64_t row = std::int64_t{blockIdx.y} * kRows;
  const std::uint8_t* const panel = product.panels + blockIdx.x * product.form.panel_bytes;
  const float sum = float_panel_product<kKind, kRows>(product.form, panel, sums, [&] {
    wait_for_previous();
    return rows_from<kRows>(product, row);
  });
  const int own_row = static_cast<int>(threadIdx.x) / kPanelOutputs;
  if (own_row >= kRows) return;
  store_sum(product, row + own_row,
            std::int64_t{blockIdx.x} * kPanelOutputs + threadIdx.x % kPanelOutputs, sum);
}

// The same sums for tiles of 64 outputs and 64 rows, of which a thread has 4 by 4.
constexpr int kManyThreads = 256;
constexpr int kManyOutputs = 64;
constexpr int kManyRows = 64;
constexpr int kManyInputs = 32;  // of a tile that are in shared memory at once

struct ManyFloats {
  // Rows that a warp's lanes read four of at once begin with the same bank.
  float weights[2][kManyInputs][kManyOutputs + 4];
  float x[2][kManyInputs][kManyRows + 4];
};

// What a thread brings of a tile: eight inputs of one output and of one row.
template <WeightKind kKind>
class ManyFloatsLoader {
 public:
  __device__ ManyFloatsLoader(const FloatProduct& product)
      : form_(product.form),
        n_(static_cast<int>(threadIdx.x) % kManyOutputs),
        row_(static_cast<int>(threadIdx.x) % kManyRows),
        first_(static_cast<int>(threadIdx.x) / kManyOutputs * 8),
        rows_(rows_from<1>(product, std::int64_t{blockIdx.y} * kManyRows + row_)) {
    const std::int64_t panels = (product.outputs + kPanelOutputs - 1) / kPanelOutputs;
    const std::int64_t panel = (std::int64_t{blockIdx.x} * kManyOutputs + n_) / kPanelOutputs;
    panel_ = product.panels + min(panel, panels - 1) * form_.panel_bytes;
  }

  __device__ void load(std::int64_t k) {
    rows_.load(0, k + first_, x_);
    weights_.load(form_, panel_, k + first_, n_ % static_cast<int>(kPanelOutputs));
  }

  __device__ void store(ManyFloats& shared, int buffer) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = first_ + 4 * i;
      const float4 weights = weights_.floats(i);
      shared.weights[buffer][k][n_] = weights.x;
      shared.weights[buffer][k + 1][n_] = weights.y;
      shared.weights[buffer][k + 2][n_] = weights.z;
      shared.weights[buffer][k + 3][n_] = weights.w;
      shared.x[buffer][k][row_] = x_[i].x;
      shared.x[buffer][k + 1][row_] = x_[i].y;
      shared.x[buffer][k + 2][row_] = x_[i].z;
      shared.x[buffer][k + 3][row_] = x_[i].w;
    }
  }

 private:
  PanelForm form_;
  int n_;
  int row_;
  int first_;
  FloatRows<1> rows_;
  const std::uint8_t* panel_ = nullptr;
  QuadsAhead<kKind, 2> weights_;
  float4 x_[2];
};

// blockIdx.x: outputs; blockIdx.y: rows.
template <WeightKind kKind>
__global__ void __launch_bounds__(kManyThreads, 2)
    many_floats_kernel(const __grid_constant__ FloatProduct product) {
  __shared__ __align__(16) ManyFloats shared;
  let_next_start();
  wait_for_previous();
  ManyFloatsLoader<kKind> loader(product);
  const int n = static_cast<int>(threadIdx.x) % 16 * 4;
  const int row = static_cast<int>(threadIdx.x) / 16 * 4;
  float totals[4][4] = {};  // [row][output]
  float sums[4][4] = {};
  loader.load(0);
  loader.store(shared, 0);
  int buffer = 0;
  for (std::int64_t k = 0; k < product.form.inputs; k += kManyInputs) {
    __syncthreads();
    loader.load(k + kManyInputs);
#pragma unroll 8
    for (int i = 0; i < kManyInputs; ++i) {
      const float4 w = *reinterpret_cast<const float4*>(&shared.weights[buffer][i][n]);
      const float4 x = *reinterpret_cast<const float4*>(&shared.x[buffer][i][row]);
      const float of_rows[] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sums[r][0] = fmaf(of_rows[r], w.x, sums[r][0]);
        sums[r][1] = fmaf(of_rows[r], w.y, sums[r][1]);
        sums[r][2] = fmaf(of_rows[r], w.z, sums[r][2]);
        sums[r][3] = fmaf(of_rows[r], w.w, sums[r][3]);
      }
    }
    if ((k + kManyInputs) % kFloatSegment == 0 || k + kManyInputs >= product.form.inputs) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        totals[i / 4][i % 4] += sums[i / 4][i % 4];
        sums[i / 4][i % 4] = 0.0F;
      }
    }
    buffer ^= 1;
    loader.store(shared, buffer);
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    store_sum(product, std::int64_t{blockIdx.y} * kManyRows + row + i / 4,
              std::int64_t{blockIdx.x} * kManyOutputs + n + i % 4, totals[i / 4][i % 4]);
  }
}

template <WeightKind kKind, int kRows>
void launch_few_floats(const Launch& launch, const FloatProduct& product) {
  const dim3 grid(static_cast<unsigned>(ceil_div(product.outputs, kPanelOutputs)),
                  static_cast<unsigned>(ceil_div(product.rows, kRows)));
  launch_dependent(few_floats_kernel<kKind, kRows>, grid, dim3(kFloatPanelThreads), 0,
                   launch.stream, product);
}

template <WeightKind kKind>
void launch_floats(const Launch& launch, const FloatProduct& product) {
  const std::int64_t output_tiles = ceil_div(product.outputs, kManyOutputs);
  const std::int64_t row_tiles = ceil_div(product.rows, kManyRows);
  if (product.rows == 1) {
    launch_few_floats<kKind, 1>(launch, product);
  } else if (product.rows <= 16) {
    launch_few_floats<kKind, 4>(launch, product);
  } else if (output_tiles * row_tiles < launch.multiprocessors / 2) {
    launch_few_floats<kKind, 8>(launch, product);
  } else {
    const dim3 grid(static_cast<unsigned>(output_tiles), static_cast<unsigned>(row_tiles));
    launch_dependent(many_floats_kernel<kKind>, grid, dim3(kManyThreads), 0, launch.stream,
                     product);
  }
}

}  // namespace

void float_product(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                   const MatmulPart& part) {
  if (rows == 0) return;
  const PackedWeight& weight = *part.weight;
  const FloatProduct product = {
      .form = panel_form(weight),
      .panels = weight.panel(0),
      .order = weight.input_order(),
      .outputs = weight.outputs(),
      .x = x,
      .x_stride = x_stride,
      .is_aligned = weight.input_order() == nullptr && x_stride % 4 == 0 &&
                    reinterpret_cast<std::uintptr_t>(x) % sizeof(float4) == 0,
      .rows = rows,
      .out = part.out,
      .out_stride = part.out_stride,
      .bias = part.bias,
      .accumulate = part.accumulate};
  switch (weight_kind(weight.layout())) {
    case WeightKind::kF32:
      return launch_floats<WeightKind::kF32>(launch, product);
    case WeightKind::kBF16:
      return launch_floats<WeightKind::kBF16>(launch, product);
    case WeightKind::kAny:
      return launch_floats<WeightKind::kAny>(launch, product);
  }
}

}  // namespace quire::cuda
