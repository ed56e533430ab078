#include "kernels/cpu/avx512_vnni_bf16/limits_avx512_vnni_bf16.h"

#include "kernels/cpu/dots_avx512.h"
#include "kernels/cpu/limits.inl.h"
#include "kernels/cpu/vec_avx512.h"

namespace quire {
namespace {

// x <- x + (1 * 1 + 1 * 1) in each lane. Each chain begins with a zero of its own: equal chains the
// compiler would merge.
struct Bf16DotOp {
  using Vector = __m512;
  static constexpr std::int64_t kOperations = 2 * 32;
  __m512i ones = _mm512_set1_epi32(0x3F803F80);

  static Vector first(int /*chain*/) {
    Vector zero = _mm512_setzero_ps();
    QUIRE_PIN_VECTOR(zero);
    return zero;
  }
  Vector next(Vector x) const { return dot_bf16(x, ones, ones); }
  static float sum(Vector x) { return Vec16::sum(x); }
};

// The same with four products.
struct Int8DotOp {
  using Vector = __m512i;
  static constexpr std::int64_t kOperations = 2 * 64;
  __m512i ones = _mm512_set1_epi32(0x01010101);

  static Vector first(int /*chain*/) {
    Vector zero = _mm512_setzero_si512();
    QUIRE_PIN_VECTOR(zero);
    return zero;
  }
  Vector next(Vector x) const { return dot_bytes(x, ones, ones); }
  static float sum(Vector x) { return Vec16::sum(_mm512_cvtepi32_ps(x)); }
};

}  // namespace

void set_avx512_vnni_bf16_limits(LimitKernels& kernels) {
  kernels.peak(PeakKind::kBf16Dot) = chains_of<Bf16DotOp>();
  kernels.peak(PeakKind::kInt8Dot) = chains_of<Int8DotOp>();
}

}  // namespace quire
