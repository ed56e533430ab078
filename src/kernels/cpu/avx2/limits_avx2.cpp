#include "kernels/cpu/avx2/limits_avx2.h"

#include "kernels/cpu/limits.inl.h"
#include "kernels/cpu/vec_avx2.h"

namespace quire {
namespace {

// x <- x + (1 * 1 + 1 * 1) in each lane. From one step to the next goes only the addition, so six
// chains are enough, and their products find room in registers.
struct Int16DotOp {
  using Vector = __m256i;
  static constexpr std::int64_t kOperations = 2 * 16;
  Vector ones = _mm256_set1_epi16(1);

  static Vector first(int /*chain*/) { return _mm256_setzero_si256(); }
  Vector next(Vector x) {
    QUIRE_PIN_VECTOR(ones);  // else the product would be computed once, before the loop
    return _mm256_add_epi32(x, _mm256_madd_epi16(ones, ones));
  }
  static float sum(Vector x) { return Vec8::sum(_mm256_cvtepi32_ps(x)); }
};

}  // namespace

void set_avx2_limits(LimitKernels& kernels) {
  set_vec_limits<Vec8>(kernels);
  kernels.peak(PeakKind::kInt16Dot) = chains_of<Int16DotOp, 6>();
}

}  // namespace quire
