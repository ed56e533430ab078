// Matrix products of level avx512.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replace the kernels that this level does better than the one below: products of float32 inputs,
// and of inputs rounded to integers.
void set_avx512_matmul(MatmulKernels& kernels);
void set_avx512_int_matmul(MatmulKernels& kernels);

}  // namespace quire
