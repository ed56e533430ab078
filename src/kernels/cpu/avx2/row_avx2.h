// Row kernels and attention with AVX2, FMA and F16C.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

void set_avx2_rows(RowKernels& kernels);

}  // namespace quire
