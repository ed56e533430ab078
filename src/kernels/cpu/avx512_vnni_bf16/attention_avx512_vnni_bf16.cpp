#include "kernels/cpu/avx512_vnni_bf16/attention_avx512_vnni_bf16.h"

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/avx512/row_avx512.h"
#include "kernels/cpu/avx512_vnni_bf16/bf16_pairs.inl.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

void dot_attention(const AttentionTask& task) {
  if (task.args->layout.dtype == DType::kBF16) {
    attend<Vec16, Bf16Pairs>(task);
  } else {
    avx512_attention(task);
  }
}

}  // namespace

void set_avx512_vnni_bf16_attention(RowKernels& kernels) {
  kernels.attention = dot_attention;
  kernels.attention_rounds_to_bf16 = true;
}

}  // namespace quire
