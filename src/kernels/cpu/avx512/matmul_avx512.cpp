#include "kernels/cpu/avx512/matmul_avx512.h"

#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {

void set_avx512_matmul(MatmulKernels& kernels) { set_vec_matmul<MatmulVec16>(kernels); }

}  // namespace quire
