#pragma once

#include "kernels/limit_kernels.h"

namespace quire {

void set_avx2_limits(LimitKernels& kernels);

}  // namespace quire
