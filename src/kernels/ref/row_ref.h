// The scalar reference of the row kernels and of attention: plain loops, sums in double. What the
// other levels are tested against, and what runs where there is nothing better.
#pragma once

#include "kernels/row_kernels.h"

namespace quire {

RowKernels ref_row_kernels();

void ref_attention(const AttentionTask& task);

}  // namespace quire
