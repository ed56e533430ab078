#pragma once

#include "kernels/limit_kernels.h"

namespace quire {

void set_avx512_vnni_bf16_limits(LimitKernels& kernels);

}  // namespace quire
