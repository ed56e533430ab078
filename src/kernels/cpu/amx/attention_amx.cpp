#include "kernels/cpu/amx/attention_amx.h"

#include "kernels/cpu/amx/attention_tiles.h"
#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/avx512_vnni_bf16/attention_avx512_vnni_bf16.h"

namespace quire {
namespace {

void tile_attention(const AttentionTask& task) {
  if (task.args->layout.dtype == DType::kBF16) {
    attend<Vec16, Bf16Pairs, attend_range_on_tiles>(task);
  } else {
    avx512_vnni_attention(task);
  }
}

}  // namespace

void set_amx_attention(RowKernels& kernels) {
  kernels.attention = tile_attention;
  kernels.attention_rounds_to_bf16 = true;
  kernels.attention_rounds_over_fp8 = false;
}

}  // namespace quire
