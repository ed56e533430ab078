// Attention over a bfloat16 cache with its dot product.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

// Where the dot product of bfloat16 is faster than products of floats; else nothing changes.
void set_avx512_vnni_bf16_attention(RowKernels& kernels);

}  // namespace quire
