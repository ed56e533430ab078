// Attention over a bfloat16 cache on tiles.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

void set_amx_attention(RowKernels& kernels);

}  // namespace quire
