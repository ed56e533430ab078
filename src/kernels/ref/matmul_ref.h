// Scalar matrix products with double accumulation: what every other level is compared with.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

MatmulKernels ref_matmul_kernels();

}  // namespace quire
