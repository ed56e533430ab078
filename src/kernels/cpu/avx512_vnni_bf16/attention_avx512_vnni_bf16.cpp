#include "kernels/cpu/avx512_vnni_bf16/attention_avx512_vnni_bf16.h"

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/avx512/row_avx512.h"
#include "kernels/cpu/avx512_vnni_bf16/bf16_pairs.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/fp8_pairs.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/vec_avx512_dots.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

void dot_attention(const AttentionTask& task) {
  switch (task.args->layout.dtype) {
    case DType::kBF16:
      attend<Vec16, Bf16Pairs>(task);
      return;
    case DType::kF8E4M3:
      attend<Vec16, Fp8Pairs>(task);
      return;
    default:
      avx512_vnni_attention(task);
  }
}

}  // namespace

void avx512_vnni_attention(const AttentionTask& task) {
  if (task.args->layout.dtype == DType::kI8) {
    attend<Vec16Dots, CodeRows<Vec16Dots>>(task);
  } else {
    avx512_attention(task);
  }
}

void set_avx512_vnni_bf16_attention(RowKernels& kernels) {
  kernels.attention = dot_attention;
  kernels.attention_rounds_to_bf16 = true;
  kernels.attention_rounds_over_fp8 = true;
}

}  // namespace quire
