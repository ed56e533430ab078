// Attention over a bfloat16 cache with its dot product.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

// For processors on which that is faster than products of floats.
void set_avx512_vnni_bf16_attention(RowKernels& kernels);

}  // namespace quire
