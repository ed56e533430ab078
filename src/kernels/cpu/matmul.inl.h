// Matrix products over packed panels, written once for every vector width. A level's file gives the
// vector operations `V` (kernels/cpu/avx2/matmul_avx2.cpp shows them all) and instantiates.
//
// Few rows: a block of R input rows by N consecutive vectors of outputs, with one accumulator each,
// walks the whole of K, and expands weights in registers. Many: matmul_blocked.inl.h. How rows and
// outputs are cut changes what shares a loaded weight, never the order of operations on one output;
// so an output's bits depend on its row and its weights alone.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_blocked.inl.h"
#include "kernels/cpu/matmul_codebook.inl.h"
#include "kernels/cpu/matmul_dense.inl.h"
#include "kernels/cpu/matmul_f8.inl.h"
#include "kernels/cpu/matmul_groups.inl.h"
#include "kernels/cpu/matmul_int16.inl.h"
#include "kernels/cpu/matmul_int8.inl.h"
#include "kernels/matmul_kernel.h"

namespace quire {
namespace {

// Outputs [output, end), whole panels, for R rows: N vectors at once, then what is left by fewer.
template <typename V, typename Block, int R, int N>
void run_outputs(const MatmulPanels& args, std::int64_t output, std::int64_t end) {
  constexpr int kPanelVectors = static_cast<int>(kPanelOutputs) / V::kWidth;
  for (; output + N * V::kWidth <= end; output += N * V::kWidth) {
    Block::template run<R, N>(args, output);
  }
  if constexpr (N > kPanelVectors) run_outputs<V, Block, R, N / 2>(args, output, end);
}

// All outputs of the call for its rows, R or fewer.
template <typename V, typename Block, int R = static_cast<int>(kMaxDirectRows)>
void few_rows(const MatmulPanels& args) {
  if constexpr (R > 1) {
    if (args.rows < R) return few_rows<V, Block, R - 1>(args);
  }
  run_outputs<V, Block, R, Block::Shape::vectors(R)>(args, 0, args.num_panels * kPanelOutputs);
}

// `Block` for kFew rows or fewer, `Pieces` for more.
template <typename V, typename Block, typename Pieces, int kFew = static_cast<int>(kMaxDirectRows)>
void vec_matmul(const MatmulPanels& args) {
  if (args.rows <= kFew) {
    few_rows<V, Block, kFew>(args);
  } else {
    blocked_matmul<V, Pieces>(args);
  }
}

template <typename V, WeightLayout kLayout>
void set_group_matmul(MatmulKernels& kernels) {
  kernels.with_float[static_cast<int>(kLayout)] =
      vec_matmul<V, GroupFloatBlock<V, kLayout>, FloatPieces<V, GroupLines<V, kLayout>>>;
}

template <typename V, WeightLayout kLayout>
void set_group_int_matmul(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<int>(kLayout);
  kernels.with_int16[kIndex] = vec_matmul<V, GroupInt16Block<V, kLayout>, Int16Pieces<V, kLayout>>;
  if constexpr (group_layout(kLayout).code_bits < 8) {
    kernels.with_int8[kIndex] = int8_matmul<V, GroupInt8Block<V, kLayout>>;
  } else {
    kernels.with_int8[kIndex] = nullptr;
  }
}

template <typename V, WeightLayout kLayout>
void set_f8_matmul(MatmulKernels& kernels) {
  using Terms = F8FloatTerms<V>;
  kernels.with_float[static_cast<int>(kLayout)] =
      vec_matmul<V, F8Block<V, kLayout, Terms>, F8Pieces<V, kLayout, Terms>>;
}

// The kernels of the layout with the smallest spans serve the wider ones, too.
template <typename V, WeightLayout kSmallest>
void set_zero_matmul(MatmulKernels& kernels) {
  set_group_matmul<V, kSmallest>(kernels);
  share_with_wider_spans(kernels.with_float, kSmallest);
}

template <typename V, WeightLayout kSmallest>
void set_zero_int_matmul(MatmulKernels& kernels) {
  set_group_int_matmul<V, kSmallest>(kernels);
  share_with_wider_spans(kernels.with_int16, kSmallest);
  share_with_wider_spans(kernels.with_int8, kSmallest);
}

// Gives `kernel` to all tables, and all spans whose scales are nested, or those whose are not.
inline void set_codebook_kernels(MatmulKernel (&kernels)[kNumWeightLayouts], bool nested,
                                 MatmulKernel kernel) {
  for (int layout = 0; layout < kNumWeightLayouts; ++layout) {
    const auto which = static_cast<WeightLayout>(layout);
    if (is_codebook(which) && CodebookPanel::of(which).nested == nested) kernels[layout] = kernel;
  }
}

template <typename V, bool kNested>
void set_codebook_matmul(MatmulKernels& kernels) {
  set_codebook_kernels(
      kernels.with_float, kNested,
      vec_matmul<V, CodebookBlock<V, kNested>, FloatPieces<V, CodebookLines<V, kNested>>>);
}

template <typename V, bool kNested>
void set_codebook_int_matmul(MatmulKernels& kernels) {
  set_codebook_kernels(
      kernels.with_int16, kNested,
      vec_matmul<V, CodebookInt16Block<V, kNested>, CodebookInt16Pieces<V, kNested>>);
}

template <typename V, WeightLayout kLayout>
void set_dense_matmul(MatmulKernels& kernels) {
  kernels.with_float[static_cast<int>(kLayout)] =
      vec_matmul<V, DenseBlock<V, kLayout>, FloatPieces<V, DenseLines<V, kLayout>>>;
}

// With float32 inputs.
template <typename V>
void set_vec_matmul(MatmulKernels& kernels) {
  kernels.max_block_rows = V::kMaxBlockRows;
  kernels.chunk_rows = kChunkBlocks * V::kMaxBlockRows;
  set_dense_matmul<V, WeightLayout::kF32>(kernels);
  set_dense_matmul<V, WeightLayout::kF16>(kernels);
  kernels.with_float[static_cast<int>(WeightLayout::kBF16)] =
      vec_matmul<V, Bf16Block<V>, Bf16Pieces<V>>;
  set_group_matmul<V, WeightLayout::kInt8>(kernels);
  set_group_matmul<V, WeightLayout::kInt4>(kernels);
  set_group_matmul<V, WeightLayout::kInt5>(kernels);
  set_group_matmul<V, WeightLayout::kUint4>(kernels);
  set_group_matmul<V, WeightLayout::kUint5>(kernels);
  set_group_matmul<V, WeightLayout::kUint4Super>(kernels);
  set_group_matmul<V, WeightLayout::kUint5Super>(kernels);
  set_group_matmul<V, WeightLayout::kInt6Super>(kernels);
  set_group_matmul<V, WeightLayout::kInt8Row>(kernels);
  set_group_matmul<V, WeightLayout::kInt4Group128>(kernels);
  set_group_matmul<V, WeightLayout::kInt8Halves>(kernels);
  set_group_matmul<V, WeightLayout::kInt8HalvesMinimum>(kernels);
  set_zero_matmul<V, WeightLayout::kUint4Zero32>(kernels);
  set_zero_matmul<V, WeightLayout::kUint4Scale32>(kernels);
  set_zero_matmul<V, WeightLayout::kInt8Zero32>(kernels);
  set_zero_matmul<V, WeightLayout::kInt8Scale32>(kernels);
  set_f8_matmul<V, WeightLayout::kF8Row>(kernels);
  set_f8_matmul<V, WeightLayout::kF8Block128>(kernels);
  set_codebook_matmul<V, false>(kernels);
  set_codebook_matmul<V, true>(kernels);
}

// With inputs rounded to integers.
template <typename V>
void set_vec_int_matmul(MatmulKernels& kernels) {
  set_group_int_matmul<V, WeightLayout::kInt8>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt4>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt5>(kernels);
  set_group_int_matmul<V, WeightLayout::kUint4>(kernels);
  set_group_int_matmul<V, WeightLayout::kUint5>(kernels);
  set_group_int_matmul<V, WeightLayout::kUint4Super>(kernels);
  set_group_int_matmul<V, WeightLayout::kUint5Super>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt6Super>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt8Row>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt4Group128>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt8Halves>(kernels);
  set_group_int_matmul<V, WeightLayout::kInt8HalvesMinimum>(kernels);
  set_zero_int_matmul<V, WeightLayout::kUint4Zero32>(kernels);
  set_zero_int_matmul<V, WeightLayout::kUint4Scale32>(kernels);
  set_zero_int_matmul<V, WeightLayout::kInt8Zero32>(kernels);
  set_zero_int_matmul<V, WeightLayout::kInt8Scale32>(kernels);
  set_codebook_int_matmul<V, false>(kernels);
  set_codebook_int_matmul<V, true>(kernels);
}

}  // namespace
}  // namespace quire
