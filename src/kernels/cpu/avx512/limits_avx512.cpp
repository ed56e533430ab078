#include "kernels/cpu/avx512/limits_avx512.h"

#include "kernels/cpu/limits.inl.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {

void set_avx512_limits(LimitKernels& kernels) { set_vec_limits<Vec16>(kernels); }

}  // namespace quire
