#include "kernels/cpu/avx2/row_avx2.h"

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/row_kernels.inl.h"
#include "kernels/cpu/vec_avx2.h"
#include "kernels/sampling/token_weights.h"

namespace quire {

void set_avx2_rows(RowKernels& kernels) {
  kernels.rms_norm = vec_rms_norm<Vec8, false>;
  kernels.rms_norm_and_add = vec_rms_norm<Vec8, true>;
  kernels.layer_norm = vec_layer_norm<Vec8>;
  kernels.silu_and_mul = vec_activate_and_mul<Vec8, Silu<Vec8>>;
  kernels.gelu_tanh_and_mul = vec_activate_and_mul<Vec8, GeluTanh<Vec8>>;
  kernels.gelu_tanh = vec_activate<Vec8, GeluTanh<Vec8>>;
  kernels.gelu = vec_activate<Vec8, Gelu<Vec8>>;
  kernels.relu = vec_activate<Vec8, Relu<Vec8>>;
  kernels.relu2 = vec_activate<Vec8, Relu2<Vec8>>;
  kernels.soft_cap = vec_soft_cap<Vec8>;
  kernels.xielu = vec_xielu<Vec8>;
  kernels.clamped_and_mul = vec_clamped_and_mul<Vec8>;
  kernels.rope_and_cache = vec_rope_and_cache<Vec8>;
  kernels.attention = vec_attention<Vec8>;
  kernels.merge_attention = vec_merge_attention<Vec8>;
  kernels.best_of_row = vec_best_of_row<Vec8>;
  kernels.log_sum_exp = vec_log_sum_exp<Vec8>;
  kernels.token_weights = token_weights<Vec8>;
}

}  // namespace quire
