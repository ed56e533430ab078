#pragma once

#include "kernels/limit_kernels.h"

namespace quire {

LimitKernels ref_limit_kernels();

}  // namespace quire
