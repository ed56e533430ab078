// Matrix products of level avx2.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replaces the kernels that this level does better than the one below.
void set_avx2_matmul(MatmulKernels& kernels);

}  // namespace quire
