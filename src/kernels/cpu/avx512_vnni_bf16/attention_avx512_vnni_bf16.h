// Attention with dot products: over a bfloat16 cache, and over an int8 cache.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

// As avx512_attention(), but int8 caches by dot products of 16-bit integers.
void avx512_vnni_attention(const AttentionTask& task);

// For processors on which that is faster than products of floats.
void set_avx512_vnni_bf16_attention(RowKernels& kernels);

}  // namespace quire
