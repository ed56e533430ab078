#include "kernels/cpu/avx2/matmul_avx2.h"

#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/matmul_vec_avx2.h"

namespace quire {

void set_avx2_matmul(MatmulKernels& kernels) { set_vec_matmul<MatmulVec8>(kernels); }

}  // namespace quire
