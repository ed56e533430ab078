// Expanding compact weights, by the definition of their encodings.
#pragma once

#include "kernels/matmul_kernel.h"

namespace quire {

void set_ref_expanders(MatmulKernels& kernels);

}  // namespace quire
