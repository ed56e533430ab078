// Matrix products of level avx2.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replace the kernels that this level does better than the one below: products of float32 inputs,
// and of inputs rounded to integers.
void set_avx2_matmul(MatmulKernels& kernels);
void set_avx2_int_matmul(MatmulKernels& kernels);
// How inputs are rounded, which the levels above use, too.
void set_avx2_rounding(MatmulKernels& kernels);
// How compact weights are expanded; so do they.
void set_avx2_expanders(MatmulKernels& kernels);
void set_avx2_grid_expanders(MatmulKernels& kernels);  // a part of these

}  // namespace quire
