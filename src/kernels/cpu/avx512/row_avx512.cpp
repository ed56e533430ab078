#include "kernels/cpu/avx512/row_avx512.h"

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/row_kernels.inl.h"
#include "kernels/cpu/vec_avx512.h"
#include "kernels/sampling/token_weights.h"

namespace quire {

void avx512_attention(const AttentionTask& task) { vec_attention<Vec16>(task); }

void set_avx512_rows(RowKernels& kernels) {
  kernels.rms_norm = vec_rms_norm<Vec16, false>;
  kernels.rms_norm_and_add = vec_rms_norm<Vec16, true>;
  kernels.layer_norm = vec_layer_norm<Vec16>;
  kernels.silu_and_mul = vec_activate_and_mul<Vec16, Silu<Vec16>>;
  kernels.gelu_tanh_and_mul = vec_activate_and_mul<Vec16, GeluTanh<Vec16>>;
  kernels.gelu_tanh = vec_activate<Vec16, GeluTanh<Vec16>>;
  kernels.gelu = vec_activate<Vec16, Gelu<Vec16>>;
  kernels.relu = vec_activate<Vec16, Relu<Vec16>>;
  kernels.relu2 = vec_activate<Vec16, Relu2<Vec16>>;
  kernels.soft_cap = vec_soft_cap<Vec16>;
  kernels.xielu = vec_xielu<Vec16>;
  kernels.clamped_and_mul = vec_clamped_and_mul<Vec16>;
  kernels.rope_and_cache = vec_rope_and_cache<Vec16>;
  kernels.attention = avx512_attention;
  kernels.merge_attention = vec_merge_attention<Vec16>;
  kernels.best_of_row = vec_best_of_row<Vec16>;
  kernels.log_sum_exp = vec_log_sum_exp<Vec16>;
  kernels.token_weights = token_weights<Vec16>;
}

}  // namespace quire
