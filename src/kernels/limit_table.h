// What each instruction-set level measures the machine with.
#pragma once

#include "kernels/limit_kernels.h"
#include "kernels/op_table.h"

namespace quire {

// The kernels of `level`, which must be available.
const LimitKernels& limit_kernels(IsaLevel level);

}  // namespace quire
