#include "kernels/cpu/avx512/limits_avx512.h"

#include "kernels/cpu/limits.inl.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

// x <- x + (1 * 1 + 1 * 1) in each lane. From one step to the next goes only the addition, so six
// chains are enough, and their products find room in registers.
struct Int16DotOp {
  using Vector = __m512i;
  static constexpr std::int64_t kOperations = 2 * 32;
  Vector ones = _mm512_set1_epi32(0x00010001);

  static Vector first(int /*chain*/) { return _mm512_setzero_si512(); }
  Vector next(Vector x) {
    QUIRE_PIN_VECTOR(ones);  // else the product would be computed once, before the loop
    return _mm512_add_epi32(x, _mm512_madd_epi16(ones, ones));
  }
  static float sum(Vector x) { return Vec16::sum(_mm512_cvtepi32_ps(x)); }
};

}  // namespace

void set_avx512_limits(LimitKernels& kernels) {
  set_vec_limits<Vec16>(kernels);
  kernels.peak(PeakKind::kInt16Dot) = chains_of<Int16DotOp, 6>();
}

}  // namespace quire
