#include "kernels/cpu/amx/attention_amx.h"

#include "kernels/cpu/amx/attention_tiles.h"
#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/avx512/row_avx512.h"
#include "kernels/cpu/avx512_vnni_bf16/vec_avx512_dots.h"

namespace quire {
namespace {

void tile_attention(const AttentionTask& task) {
  switch (task.args->layout.dtype) {
    case DType::kBF16:
      attend<Vec16, Bf16Pairs, attend_range_on_tiles>(task);
      return;
    case DType::kI8:
      attend<Vec16Dots, CodeRows<Vec16Dots>>(task);
      return;
    default:
      avx512_attention(task);
  }
}

}  // namespace

void set_amx_attention(RowKernels& kernels) {
  kernels.attention = tile_attention;
  kernels.attention_rounds_to_bf16 = true;
  kernels.attention_rounds_over_fp8 = false;
}

}  // namespace quire
