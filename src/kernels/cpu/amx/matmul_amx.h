// Matrix products of level amx.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

// Replaces the kernels that this level does better than the one below.
void set_amx_matmul(MatmulKernels& kernels);

}  // namespace quire
