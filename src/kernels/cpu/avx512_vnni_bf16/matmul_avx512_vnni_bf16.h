// Matrix products of level avx512_vnni_bf16.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replaces the kernels that this level does better than the one below. `bf16_dots`: on this
// processor vdpbf16ps computes more than float32 FMA does, and it has VBMI.
void set_avx512_vnni_bf16_matmul(MatmulKernels& kernels, bool bf16_dots);

// Those of e4m3 weights by bfloat16 inputs, with vdpbf16ps and VBMI.
void set_avx512_vnni_bf16_f8_matmul(MatmulKernels& kernels);

}  // namespace quire
