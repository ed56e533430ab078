#include "kernels/cpu/avx512_vnni_bf16/matmul_avx512_vnni_bf16.h"
#include "kernels/cpu/avx512_vnni_bf16/matmul_f8_bf16.inl.h"
#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/matmul_vec_avx512.h"

namespace quire {
namespace {

using V = MatmulVec16;

// As many rows as sums of theirs stay in registers share what codes are expanded to. Of pieces that
// are expanded to memory, as for more rows, 4 to 16 rows get 0.64 to 0.94 of the speed.
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
constexpr int kMaxRowsInRegisters = 5;  // each number takes long to compile
#else
constexpr int kMaxRowsInRegisters = 16;
#endif

constexpr int vectors_at_once(int rows) {
  return rows <= kMaxDirectRows ? V::DirectBlocks::vectors(rows) : rows <= 8 ? 2 : 1;
}

template <WeightLayout kLayout, int R>
void multiply_in_registers(const MatmulPanels& args) {
  if constexpr (R > 1) {
    if (args.rows < R) return multiply_in_registers<kLayout, R - 1>(args);
  }
  run_outputs<V, F8Block<V, kLayout, F8DotTerms<V>>, R, vectors_at_once(R)>(
      args, 0, args.num_panels * kPanelOutputs);
}

template <WeightLayout kLayout>
void multiply(const MatmulPanels& args) {
  if (args.rows <= kMaxRowsInRegisters) {
    multiply_in_registers<kLayout, kMaxRowsInRegisters>(args);
  } else {
    blocked_matmul<V, F8Pieces<V, kLayout, F8DotTerms<V>>>(args);
  }
}

}  // namespace

void set_avx512_vnni_bf16_f8_matmul(MatmulKernels& kernels) {
  kernels.with_bf16[static_cast<int>(WeightLayout::kF8Row)] = multiply<WeightLayout::kF8Row>;
  kernels.with_bf16[static_cast<int>(WeightLayout::kF8Block128)] =
      multiply<WeightLayout::kF8Block128>;
}

}  // namespace quire
