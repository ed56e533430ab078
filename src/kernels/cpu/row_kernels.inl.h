// Row kernels over a vector type V (vec_avx2.h, vec_avx512.h). Sums run in lanes and are folded in
// an order that depends on the number of columns alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/exp.inl.h"
#include "kernels/cpu/kv_rows.inl.h"
#include "kernels/cpu/unroll.h"
#include "kernels/row_kernels.h"

namespace quire {

// kAdd: to the contents of `out`. `out` may be `x`.
template <class V, bool kAdd>
inline void vec_rms_norm(const float* x, const float* weight, float epsilon, std::int64_t cols,
                         float* out) {
  using F = typename V::F;
  constexpr int kSums = 4;
  F sums[kSums] = {V::zero(), V::zero(), V::zero(), V::zero()};
  std::int64_t i = 0;
  for (; i + kSums * V::kWidth <= cols; i += kSums * V::kWidth) {
    QUIRE_UNROLL
    for (int s = 0; s < kSums; ++s) {
      const F v = V::load(x + i + s * V::kWidth);
      sums[s] = V::fma(v, v, sums[s]);
    }
  }
  for (; i + V::kWidth <= cols; i += V::kWidth) {
    const F v = V::load(x + i);
    sums[0] = V::fma(v, v, sums[0]);
  }
  const int rest = static_cast<int>(cols - i);
  if (rest != 0) {
    const F v = V::load_first(x + i, rest);
    sums[1] = V::fma(v, v, sums[1]);
  }
  const float sum = V::sum(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
  const F scale = V::set1(1.0F / __builtin_sqrtf(sum / static_cast<float>(cols) + epsilon));
  for (i = 0; i + V::kWidth <= cols; i += V::kWidth) {
    F v = V::mul(V::mul(V::load(x + i), scale), V::load(weight + i));
    if constexpr (kAdd) v = V::add(V::load(out + i), v);
    V::store(out + i, v);
  }
  if (rest != 0) {
    F v = V::mul(V::mul(V::load_first(x + i, rest), scale), V::load_first(weight + i, rest));
    if constexpr (kAdd) v = V::add(V::load_first(out + i, rest), v);
    V::store_first(out + i, v, rest);
  }
}

// The sum over a row of what `term` makes of its numbers.
template <class V, class Term>
inline float vec_sum(const float* x, std::int64_t cols, const Term& term) {
  using F = typename V::F;
  constexpr int kSums = 4;
  F sums[kSums] = {V::zero(), V::zero(), V::zero(), V::zero()};
  std::int64_t i = 0;
  for (; i + kSums * V::kWidth <= cols; i += kSums * V::kWidth) {
    QUIRE_UNROLL
    for (int s = 0; s < kSums; ++s) {
      sums[s] = V::add(sums[s], term(V::load(x + i + s * V::kWidth)));
    }
  }
  for (; i + V::kWidth <= cols; i += V::kWidth) sums[0] = V::add(sums[0], term(V::load(x + i)));
  const int rest = static_cast<int>(cols - i);
  if (rest != 0) {
    const F v = V::keep_first(term(V::load_first(x + i, rest)), rest, V::zero());
    sums[1] = V::add(sums[1], v);
  }
  return V::sum(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
}

// `out` may be `x`.
template <class V>
inline void vec_layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                           std::int64_t cols, float* out) {
  using F = typename V::F;
  const auto count = static_cast<float>(cols);
  const F mean = V::set1(vec_sum<V>(x, cols, [](F v) { return v; }) / count);
  const float squares = vec_sum<V>(x, cols, [mean](F v) {
    const F distance = V::sub(v, mean);
    return V::mul(distance, distance);
  });
  const F scale = V::set1(1.0F / __builtin_sqrtf(squares / count + epsilon));
  std::int64_t i = 0;
  for (; i + V::kWidth <= cols; i += V::kWidth) {
    F v = V::mul(V::sub(V::load(x + i), mean), scale);
    if (weight != nullptr) v = V::mul(v, V::load(weight + i));
    if (bias != nullptr) v = V::add(v, V::load(bias + i));
    V::store(out + i, v);
  }
  const int rest = static_cast<int>(cols - i);
  if (rest != 0) {
    F v = V::mul(V::sub(V::load_first(x + i, rest), mean), scale);
    if (weight != nullptr) v = V::mul(v, V::load_first(weight + i, rest));
    if (bias != nullptr) v = V::add(v, V::load_first(bias + i, rest));
    V::store_first(out + i, v, rest);
  }
}

// x * sigmoid(t) * up. SiLU is t = x, and the tanh form of GELU t = 2 sqrt(2 / pi) (x + 0.044715
// x^3), because (1 + tanh(u)) / 2 = sigmoid(2 u).
template <class V>
struct Silu {
  using F = typename V::F;
  static F apply(F gate, F up) {
    const F e = vec_exp<V>(V::sub(V::zero(), gate));
    return V::mul(V::div(gate, V::add(V::set1(1.0F), e)), up);
  }
};

template <class V>
struct GeluTanh {
  using F = typename V::F;
  static F apply(F gate, F up) {
    const F cube = V::mul(V::mul(gate, gate), gate);
    const F t = V::mul(V::fma(cube, V::set1(0.044715F), gate), V::set1(-1.5957691216057307F));
    return V::mul(V::div(gate, V::add(V::set1(1.0F), vec_exp<V>(t))), up);
  }
  static F apply(F x) { return apply(x, V::set1(1.0F)); }
};

// x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, by Abramowitz and Stegun 7.1.26, which is
// within 1.5e-7 of erfc.
template <class V>
struct Gelu {
  using F = typename V::F;
  static F apply(F x) {
    // Beyond 100 the second term is 0; without the limit it would be infinity times 0.
    const F down = V::max(V::set1(-100.0F), V::sub(V::zero(), V::max(V::sub(V::zero(), x), x)));
    const F z = V::mul(down, V::set1(-0.70710678F));
    const F t = V::div(V::set1(1.0F), V::fma(z, V::set1(0.3275911F), V::set1(1.0F)));
    F p = V::set1(0.5F * 1.061405429F);
    p = V::fma(p, t, V::set1(0.5F * -1.453152027F));
    p = V::fma(p, t, V::set1(0.5F * 1.421413741F));
    p = V::fma(p, t, V::set1(0.5F * -0.284496736F));
    p = V::fma(p, t, V::set1(0.5F * 0.254829592F));
    const F tail = V::mul(V::mul(p, t), vec_exp<V>(V::mul(V::mul(down, down), V::set1(-0.5F))));
    return V::fma(down, tail, V::max(V::zero(), x));
  }
};

template <class V>
struct Relu {
  using F = typename V::F;
  static F apply(F x) { return V::max(V::zero(), x); }
};

template <class V>
struct Relu2 {
  using F = typename V::F;
  static F apply(F x) {
    const F positive = V::max(V::zero(), x);
    return V::mul(positive, positive);
  }
};

// exp(x) - 1 as it is: where x is near 0 what is lost is small beside beta x.
template <class V>
inline typename V::F xielu_of(const Xielu& curve, typename V::F x) {
  using F = typename V::F;
  const F minus = V::sub(V::zero(), x);
  const F low = V::sub(V::zero(), V::max(V::set1(-curve.epsilon), minus));  // NaN stays
  const F below = V::sub(V::sub(vec_exp<V>(low), V::set1(1.0F)), x);
  const F bend = V::where_less(V::zero(), x, V::mul(V::mul(V::set1(curve.alpha_p), x), x),
                               V::mul(V::set1(curve.alpha_n), below));
  return V::fma(V::set1(curve.beta), x, bend);
}

template <class V>
inline void vec_xielu(const Xielu& curve, std::int64_t count, float* x) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) {
    V::store(x + i, xielu_of<V>(curve, V::load(x + i)));
  }
  const int rest = static_cast<int>(count - i);
  if (rest != 0) V::store_first(x + i, xielu_of<V>(curve, V::load_first(x + i, rest)), rest);
}

template <class V>
inline typename V::F clamped_of(const ClampedGate& clamped, typename V::F gate, typename V::F up) {
  using F = typename V::F;
  const F least = V::set1(-clamped.limit);
  const F minus_g = V::max(least, V::sub(V::zero(), gate));  // NaN stays, here and below
  const F minus_u = V::max(least, V::sub(V::zero(), up));
  const F u = V::max(least, V::sub(V::zero(), minus_u));
  const F e = vec_exp<V>(V::mul(V::set1(clamped.alpha), minus_g));
  const F g = V::div(V::sub(V::zero(), minus_g), V::add(V::set1(1.0F), e));
  return V::mul(g, V::add(u, V::set1(1.0F)));
}

template <class V>
inline void vec_clamped_and_mul(const ClampedGate& clamped, const float* gate, const float* up,
                                std::int64_t width, float* out) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= width; i += V::kWidth) {
    V::store(out + i, clamped_of<V>(clamped, V::load(gate + i), V::load(up + i)));
  }
  const int rest = static_cast<int>(width - i);
  if (rest != 0) {
    V::store_first(
        out + i, clamped_of<V>(clamped, V::load_first(gate + i, rest), V::load_first(up + i, rest)),
        rest);
  }
}

template <class V, class Activation>
inline void vec_activate_and_mul(const float* gate, const float* up, std::int64_t width,
                                 float* out) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= width; i += V::kWidth) {
    V::store(out + i, Activation::apply(V::load(gate + i), V::load(up + i)));
  }
  const int rest = static_cast<int>(width - i);
  if (rest != 0) {
    V::store_first(out + i,
                   Activation::apply(V::load_first(gate + i, rest), V::load_first(up + i, rest)),
                   rest);
  }
}

template <class V, class Activation>
inline void vec_activate(std::int64_t count, float* x) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) {
    V::store(x + i, Activation::apply(V::load(x + i)));
  }
  const int rest = static_cast<int>(count - i);
  if (rest != 0) V::store_first(x + i, Activation::apply(V::load_first(x + i, rest)), rest);
}

template <class V>
inline void vec_soft_cap(float cap, std::int64_t count, float* x) {
  const typename V::F most = V::set1(cap);
  const typename V::F scale = V::set1(1.0F / cap);
  std::int64_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) {
    V::store(x + i, V::mul(most, vec_tanh<V>(V::mul(V::load(x + i), scale))));
  }
  const int rest = static_cast<int>(count - i);
  if (rest != 0) {
    V::store_first(x + i, V::mul(most, vec_tanh<V>(V::mul(V::load_first(x + i, rest), scale))),
                   rest);
  }
}

template <class V>
inline void rotate_halves(float* head, const float* cosines, const float* sines, int pairs) {
  using F = typename V::F;
  int i = 0;
  for (; i + V::kWidth <= pairs; i += V::kWidth) {
    const F x = V::load(head + i);
    const F y = V::load(head + pairs + i);
    const F c = V::load(cosines + i);
    const F s = V::load(sines + i);
    V::store(head + i, V::fnma(y, s, V::mul(x, c)));
    V::store(head + pairs + i, V::fma(x, s, V::mul(y, c)));
  }
  const int rest = pairs - i;
  if (rest != 0) {
    const F x = V::load_first(head + i, rest);
    const F y = V::load_first(head + pairs + i, rest);
    const F c = V::load_first(cosines + i, rest);
    const F s = V::load_first(sines + i, rest);
    V::store_first(head + i, V::fnma(y, s, V::mul(x, c)), rest);
    V::store_first(head + pairs + i, V::fma(x, s, V::mul(y, c)), rest);
  }
}

template <class V>
inline void rotate_interleaved(float* head, const float* cosines, const float* sines, int pairs) {
  using F = typename V::F;
  int i = 0;
  for (; i + V::kWidth / 2 <= pairs; i += V::kWidth / 2) {
    const F x = V::load(head + std::int64_t{2} * i);
    const F s = V::load_doubled(sines + i);
    V::store(head + std::int64_t{2} * i,
             V::fmaddsub(x, V::load_doubled(cosines + i), V::mul(V::swap_pairs(x), s)));
  }
  for (; i < pairs; ++i) {
    const float x = head[std::int64_t{2} * i];
    const float y = head[std::int64_t{2} * i + 1];
    head[std::int64_t{2} * i] = x * cosines[i] - y * sines[i];
    head[std::int64_t{2} * i + 1] = y * cosines[i] + x * sines[i];
  }
}

template <class V>
inline void vec_rope_and_cache(const RopeAndCacheArgs& args, const HeadTile& tile) {
  const KvLayout& layout = args.layout;
  const std::int32_t pairs = args.rotary_dim / 2;
  const std::int32_t first_key = args.num_heads;
  const std::int32_t first_value = first_key + layout.num_kv_heads;
  for (std::int64_t token = tile.token_begin; token < tile.token_end; ++token) {
    const float* const cosines =
        args.rope_table + std::int64_t{args.positions[token]} * args.rotary_dim;
    const auto block = static_cast<BlockId>(args.slot_mapping[token] / layout.block_size);
    const auto slot = static_cast<std::int32_t>(args.slot_mapping[token] % layout.block_size);
    for (std::int32_t head = tile.head_begin; head < tile.head_end; ++head) {
      float* const x = args.qkv + (token * args.all_heads() + head) * layout.head_dim;
      if (head >= first_value) {
        store_value<V>(x, layout, block, head - first_value, slot, args.kv);
        continue;
      }
      const float* const norm = head < first_key ? args.q_norm : args.k_norm;
      const auto norm_head = [&] {
        vec_rms_norm<V, false>(x, norm, args.norm_epsilon, layout.head_dim, x);
      };
      if (norm != nullptr && !args.norms_after_rope) norm_head();
      if (args.style == RopeStyle::kHalves) {
        rotate_halves<V>(x, cosines, cosines + pairs, pairs);
      } else {
        rotate_interleaved<V>(x, cosines, cosines + pairs, pairs);
      }
      if (norm != nullptr && args.norms_after_rope) norm_head();
      if (head >= first_key) store_key<V>(x, layout, block, head - first_key, slot, args.kv);
    }
  }
}

// In pieces that stay in the L1 cache: a piece's largest number, then its place if it is the
// row's.
template <class V>
inline RowBest vec_best_of_row(const float* x, std::int64_t cols) {
  using F = typename V::F;
  constexpr int kSums = 4;
  constexpr std::int64_t kPiece = 2048;
  const F lowest = V::set1(-__builtin_inff());
  RowBest best = {.value = -__builtin_inff(), .index = 0};
  for (std::int64_t begin = 0; begin < cols; begin += kPiece) {
    const std::int64_t end = begin + kPiece < cols ? begin + kPiece : cols;
    F largest[kSums] = {lowest, lowest, lowest, lowest};
    unsigned ordered = ~0U;  // lanes that saw no NaN
    std::int64_t i = begin;
    for (; i + kSums * V::kWidth <= end; i += kSums * V::kWidth) {
      QUIRE_UNROLL
      for (int s = 0; s < kSums; ++s) {
        const F v = V::load(x + i + s * V::kWidth);
        largest[s] = V::max(v, largest[s]);
        ordered &= V::equal_lanes(v, v);
      }
    }
    for (; i < end; i += V::kWidth) {
      const int rest = static_cast<int>(end - i);
      const F v = rest >= V::kWidth ? V::load(x + i)
                                    : V::keep_first(V::load_first(x + i, rest), rest, lowest);
      largest[0] = V::max(v, largest[0]);
      ordered &= V::equal_lanes(v, v);
    }
    constexpr unsigned kAll = (1U << V::kWidth) - 1U;
    if ((ordered & kAll) != kAll) return {.value = __builtin_nanf(""), .index = 0};
    const float value =
        V::largest(V::max(V::max(largest[0], largest[1]), V::max(largest[2], largest[3])));
    if (!(value > best.value)) continue;
    const F pivot = V::set1(value);
    for (i = begin;; i += V::kWidth) {
      const int rest = static_cast<int>(end - i);
      const F v = rest >= V::kWidth ? V::load(x + i)
                                    : V::keep_first(V::load_first(x + i, rest), rest, lowest);
      const unsigned equal = V::equal_lanes(v, pivot);
      if (equal == 0) continue;
      best = {.value = value, .index = static_cast<std::int32_t>(i + __builtin_ctz(equal))};
      break;
    }
  }
  return best;
}

template <class V>
inline float vec_log_sum_exp(const float* x, std::int64_t cols, float largest) {
  using F = typename V::F;
  if (!__builtin_isfinite(largest)) return largest;
  const F pivot = V::set1(largest);
  const std::int64_t whole = cols / V::kWidth * V::kWidth;
  const int rest = static_cast<int>(cols - whole);
  F sums[2] = {V::zero(), V::zero()};
  std::int64_t i = 0;
  for (; i + 2 * V::kWidth <= whole; i += 2 * V::kWidth) {
    sums[0] = V::add(sums[0], vec_exp<V>(V::sub(V::load(x + i), pivot)));
    sums[1] = V::add(sums[1], vec_exp<V>(V::sub(V::load(x + i + V::kWidth), pivot)));
  }
  if (i < whole) sums[0] = V::add(sums[0], vec_exp<V>(V::sub(V::load(x + i), pivot)));
  if (rest != 0) {
    const F e = vec_exp<V>(V::sub(V::load_first(x + whole, rest), pivot));
    sums[1] = V::add(sums[1], V::keep_first(e, rest, V::zero()));
  }
  return largest + __builtin_logf(V::sum(V::add(sums[0], sums[1])));
}

}  // namespace quire
