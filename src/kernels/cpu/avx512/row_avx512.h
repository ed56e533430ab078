// Row kernels and attention with AVX-512 F, BW, DQ and VL.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

void set_avx512_rows(RowKernels& kernels);

// As RowKernels::attention, with products of floats.
void avx512_attention(const AttentionTask& task);

}  // namespace quire
