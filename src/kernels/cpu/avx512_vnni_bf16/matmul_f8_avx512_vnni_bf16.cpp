#include "kernels/cpu/avx512_vnni_bf16/matmul_avx512_vnni_bf16.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_f8_bf16.inl.h"
#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {
namespace {

template <WeightLayout kLayout>
void set_f8_dot_matmul(MatmulKernels& kernels) {
  using V = MatmulVec16;
  using Terms = F8DotTerms<V>;
  kernels.with_bf16[static_cast<int>(kLayout)] =
      vec_matmul<V, F8Block<V, kLayout, Terms>, F8Pieces<V, kLayout, Terms>, Terms::kFewRows>;
}

}  // namespace

void set_avx512_vnni_bf16_f8_matmul(MatmulKernels& kernels) {
  set_f8_dot_matmul<WeightLayout::kF8Row>(kernels);
  set_f8_dot_matmul<WeightLayout::kF8Block128>(kernels);
}

}  // namespace quire
