#include "kernels/cpu/avx512_vnni_bf16/matmul_avx512_vnni_bf16.h"

#include "kernels/cpu/avx512_vnni_bf16/matmul_bf16.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_vnni.inl.h"
#include "kernels/cpu/bf16_rows.inl.h"
#include "kernels/cpu/matmul.inl.h"

namespace quire {
namespace {

template <WeightLayout kLayout>
void set_vnni_matmul(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<int>(kLayout);
  kernels.with_int16[kIndex] =
      vec_matmul<VnniVec16, GroupInt16Block<VnniVec16, kLayout>, Int16Pieces<VnniVec16, kLayout>>;
  // Weights of eight bits have inputs of 16 bits in every mode, as at the levels below.
  if constexpr (group_layout(kLayout).code_bits < 8) {
    kernels.with_int8[kIndex] = int8_matmul<VnniVec16, VnniInt8Block<kLayout>>;
  }
}

}  // namespace

void set_avx512_vnni_bf16_matmul(MatmulKernels& kernels, bool bf16_dots) {
  set_vnni_matmul<WeightLayout::kInt8>(kernels);
  set_vnni_matmul<WeightLayout::kInt4>(kernels);
  set_vnni_matmul<WeightLayout::kInt5>(kernels);
  set_vnni_matmul<WeightLayout::kUint4>(kernels);
  set_vnni_matmul<WeightLayout::kUint5>(kernels);
  set_vnni_matmul<WeightLayout::kUint4Super>(kernels);
  set_vnni_matmul<WeightLayout::kUint5Super>(kernels);
  set_vnni_matmul<WeightLayout::kInt6Super>(kernels);
  set_vnni_matmul<WeightLayout::kInt8Row>(kernels);
  set_vnni_matmul<WeightLayout::kInt4Group128>(kernels);
  if (bf16_dots) {
    kernels.bf16_with_bf16 =
        vec_matmul<MatmulVec16, Bf16DotBlock<MatmulVec16>, Bf16DotPieces<MatmulVec16>>;
    kernels.round_row_bf16 = round_row_bf16;
  }
}

}  // namespace quire
