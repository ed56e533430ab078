// Matrix products over packed panels, written once for every vector width. A level's file gives the
// vector operations `V` (kernels/cpu/avx2/matmul_avx2.cpp shows them all) and instantiates.
//
// A block is R input rows by N consecutive vectors of outputs, with one accumulator each, that
// walks the whole of K. How rows and outputs are cut into blocks changes what shares a loaded
// weight, never the order of operations on one accumulator; so an output's bits depend on its row
// and its weights alone.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/cpu/matmul_groups.inl.h"
#include "kernels/matmul_kernel.h"

namespace quire {
namespace {

// Outputs [output, end), a whole number of panels, for R rows.
template <typename V, typename Block, int R>
void run_outputs(const MatmulPanels& args, std::int64_t row, std::int64_t output,
                 std::int64_t end) {
  constexpr int kVectors = Block::Shape::vectors(R);
  constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
  constexpr int kRest = kVectors < kPanelVectors ? kVectors : kPanelVectors;
  for (; output + kVectors * V::kWidth <= end; output += kVectors * V::kWidth) {
    Block::template run<R, kVectors>(args, row, output);
  }
  for (; output < end; output += kRest * V::kWidth) {
    Block::template run<R, kRest>(args, row, output);
  }
}

// As above for `rows` <= R rows.
template <typename V, typename Block, int R>
void run_rows(const MatmulPanels& args, std::int64_t row, std::int64_t rows, std::int64_t output,
              std::int64_t end) {
  if (rows == R) {
    run_outputs<V, Block, R>(args, row, output, end);
  } else if constexpr (R > 1) {
    run_rows<V, Block, R - 1>(args, row, rows, output, end);
  }
}

// Strips of panels stay in the cache while the blocks of rows pass over them.
template <typename V, typename Block>
void vec_matmul(const MatmulPanels& args) {
  constexpr std::int64_t kRows = Block::Shape::kRows;
  const std::int64_t end = args.panel_end * kPanelOutputs;
  for (std::int64_t output = args.panel_begin * kPanelOutputs; output < end;
       output += Block::Shape::kStripOutputs) {
    const std::int64_t strip_end =
        output + Block::Shape::kStripOutputs < end ? output + Block::Shape::kStripOutputs : end;
    for (std::int64_t row = 0; row < args.rows; row += kRows) {
      const std::int64_t rows = args.rows - row < kRows ? args.rows - row : kRows;
      run_rows<V, Block, kRows>(args, row, rows, output, strip_end);
    }
  }
}

template <typename V, WeightLayout kLayout>
void set_group_matmul(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<int>(kLayout);
  kernels.with_float[kIndex] = vec_matmul<V, GroupFloatBlock<V, kLayout>>;
  kernels.with_int8[kIndex] = vec_matmul<V, GroupInt8Block<V, kLayout>>;
}

template <typename V>
void set_vec_matmul(MatmulKernels& kernels) {
  const auto set = [&](WeightLayout layout, MatmulKernel kernel) {
    kernels.with_float[static_cast<int>(layout)] = kernel;
  };
  set(WeightLayout::kF32, vec_matmul<V, DenseBlock<V, WeightLayout::kF32>>);
  set(WeightLayout::kF16, vec_matmul<V, DenseBlock<V, WeightLayout::kF16>>);
  set(WeightLayout::kBF16, vec_matmul<V, Bf16Block<V>>);
  set_group_matmul<V, WeightLayout::kInt8>(kernels);
  set_group_matmul<V, WeightLayout::kInt4>(kernels);
  set_group_matmul<V, WeightLayout::kInt5>(kernels);
  set_group_matmul<V, WeightLayout::kUint4>(kernels);
  set_group_matmul<V, WeightLayout::kUint5>(kernels);
  set_group_matmul<V, WeightLayout::kUint4Super>(kernels);
  set_group_matmul<V, WeightLayout::kUint5Super>(kernels);
  set_group_matmul<V, WeightLayout::kInt6Super>(kernels);
}

}  // namespace
}  // namespace quire
