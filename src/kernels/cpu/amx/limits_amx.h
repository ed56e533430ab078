#pragma once

#include "kernels/limit_kernels.h"

namespace quire {

void set_amx_limits(LimitKernels& kernels);

}  // namespace quire
