// Matrix products of level avx512.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replaces the kernels that this level does better than the one below.
void set_avx512_matmul(MatmulKernels& kernels);

}  // namespace quire
