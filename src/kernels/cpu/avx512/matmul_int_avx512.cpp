#include "kernels/cpu/avx512/matmul_avx512.h"
#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {

// Rounding activations is inherited: it is a small part of any product.
void set_avx512_int_matmul(MatmulKernels& kernels) { set_vec_int_matmul<MatmulVec16>(kernels); }

}  // namespace quire
