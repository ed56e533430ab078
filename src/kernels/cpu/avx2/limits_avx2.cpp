#include "kernels/cpu/avx2/limits_avx2.h"

#include "kernels/cpu/limits.inl.h"
#include "kernels/cpu/vec_avx2.h"

namespace quire {

void set_avx2_limits(LimitKernels& kernels) { set_vec_limits<Vec8>(kernels); }

}  // namespace quire
