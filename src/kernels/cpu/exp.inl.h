// Exponential functions of a vector of floats.
#pragma once

#include "kernels/cpu/unroll.h"

namespace quire {

// Within 2 units in the last place; 0 where the result would be subnormal, infinity above the
// range, NaN for NaN. x = n ln 2 + r with |r| <= ln(2) / 2, where the Taylor series of degree 7 is
// exact to less than half a unit.
template <class V>
inline typename V::F vec_exp(typename V::F x) {
  using F = typename V::F;
  const F n = V::round(V::mul(x, V::set1(0x1.715476p+0F)));
  F r = V::fnma(n, V::set1(0x1.62E4p-1F), x);  // ln 2 in two parts
  r = V::fnma(n, V::set1(0x1.7F7D1Cp-20F), r);
  F p = V::set1(1.0F / 5040.0F);
  p = V::fma(p, r, V::set1(1.0F / 720.0F));
  p = V::fma(p, r, V::set1(1.0F / 120.0F));
  p = V::fma(p, r, V::set1(1.0F / 24.0F));
  p = V::fma(p, r, V::set1(1.0F / 6.0F));
  p = V::fma(p, r, V::set1(0.5F));
  p = V::fma(p, r, V::set1(1.0F));
  p = V::fma(p, r, V::set1(1.0F));
  F result = V::scale_by_power(p, n);
  result = V::where_less(x, V::set1(-0x1.5D589Ep+6F), V::zero(), result);  // ln of the least normal
  return V::where_less(V::set1(0x1.62E42Ep+6F), x, V::set1(__builtin_inff()), result);
}

// Within 4 units in the last place; NaN for NaN. As (e^2x - 1) / (e^2x - 1 + 2), where e^y - 1 =
// 2^n (e^r - 1) + (2^n - 1) with r as in vec_exp() is exact near 0, too.
template <class V>
inline typename V::F vec_tanh(typename V::F x) {
  using F = typename V::F;
  const F most = V::set1(20.0F);  // from where on the result is 1
  F y = V::max(V::sub(V::zero(), most), V::add(x, x));
  y = V::where_less(most, y, most, y);
  const F n = V::round(V::mul(y, V::set1(0x1.715476p+0F)));
  F r = V::fnma(n, V::set1(0x1.62E4p-1F), y);
  r = V::fnma(n, V::set1(0x1.7F7D1Cp-20F), r);
  F p = V::set1(1.0F / 5040.0F);
  p = V::fma(p, r, V::set1(1.0F / 720.0F));
  p = V::fma(p, r, V::set1(1.0F / 120.0F));
  p = V::fma(p, r, V::set1(1.0F / 24.0F));
  p = V::fma(p, r, V::set1(1.0F / 6.0F));
  p = V::fma(p, r, V::set1(0.5F));
  p = V::fma(V::mul(p, r), r, r);  // e^r - 1
  const F one = V::set1(1.0F);
  const F power = V::scale_by_power(one, n);
  const F less_one = V::fma(power, p, V::sub(power, one));
  return V::div(less_one, V::add(less_one, V::set1(2.0F)));
}

// 2^x for each x <= 0, within 2 units in the last place and exact for x = 0; 0 for x < -126.5; NaN
// for NaN. In step with each other, so that there is something to go on with while one waits for
// its last product.
template <class V, int N>
inline void vec_exp2(typename V::F (&x)[N]) {
  using F = typename V::F;
  constexpr float kTerms[] = {0x1.5F0890p-10F, 0x1.3B2A54p-7F, 0x1.C6AF6Cp-5F,
                              0x1.EBFBE0p-3F,  0x1.62E430p-1F, 1.0F};
  F exponent[N];
  F p[N];
  QUIRE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = V::max(V::set1(-127.0F), x[i]);
  QUIRE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = V::split(x[i], exponent[i]);
  QUIRE_UNROLL
  for (int i = 0; i < N; ++i) p[i] = V::set1(0x1.44138Ap-13F);
  for (const float term : kTerms) {
    QUIRE_UNROLL
    for (int i = 0; i < N; ++i) p[i] = V::fma(p[i], x[i], V::set1(term));
  }
  QUIRE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = V::scale_by_exponent(p[i], exponent[i]);
}

template <class V>
inline typename V::F vec_exp2(typename V::F x) {
  typename V::F one[1] = {x};
  vec_exp2<V>(one);
  return one[0];
}

}  // namespace quire
