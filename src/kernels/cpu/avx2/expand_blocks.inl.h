// What expanding compact blocks by vectors has in common: numbers of all outputs of a panel, and
// words of eight outputs turned into lines of codes. For files of the avx2 level only.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/unroll.h"
#include "kernels/group_layout.h"

namespace quire {
namespace {

constexpr std::int64_t kLine = 64;
constexpr int kOutputs = static_cast<int>(kPanelOutputs);

inline std::uint16_t half_bits(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return bits;
}

// Word u of 16 bytes of eight outputs, `stride` bytes apart, in the order of the outputs.
struct Columns {
  __m256i word[4];

  Columns(const std::uint8_t* from, std::int64_t stride) {
    __m256i row[4];
    QUIRE_UNROLL
    for (int r = 0; r < 4; ++r) {
      const auto* low = reinterpret_cast<const __m128i*>(from + r * stride);
      const auto* high = reinterpret_cast<const __m128i*>(from + (r + 4) * stride);
      row[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                       _mm_loadu_si128(high), 1);
    }
    const __m256i low01 = _mm256_unpacklo_epi32(row[0], row[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(row[0], row[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(row[2], row[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(row[2], row[3]);
    word[0] = _mm256_unpacklo_epi64(low01, low23);
    word[1] = _mm256_unpackhi_epi64(low01, low23);
    word[2] = _mm256_unpacklo_epi64(high01, high23);
    word[3] = _mm256_unpackhi_epi64(high01, high23);
  }
};

inline void store_line(std::uint8_t* line, __m256i codes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(line), codes);
}

// A 32-bit integer of each output.
struct Integers {
  __m256i eight[2];

  // Word `u` of 16 bytes of each output.
  Integers(const Columns (&columns)[2], int u) : eight{columns[0].word[u], columns[1].word[u]} {}
  Integers(__m256i first, __m256i second) : eight{first, second} {}

  // Bits [from, from + count).
  Integers bits(int from, int count) const {
    const __m128i shift = _mm_cvtsi32_si128(from);
    const __m256i mask = _mm256_set1_epi32((1 << count) - 1);
    return {_mm256_and_si256(_mm256_srl_epi32(eight[0], shift), mask),
            _mm256_and_si256(_mm256_srl_epi32(eight[1], shift), mask)};
  }
  Integers shifted_left(int count) const {
    const __m128i shift = _mm_cvtsi32_si128(count);
    return {_mm256_sll_epi32(eight[0], shift), _mm256_sll_epi32(eight[1], shift)};
  }
  Integers operator|(const Integers& other) const {
    return {_mm256_or_si256(eight[0], other.eight[0]), _mm256_or_si256(eight[1], other.eight[1])};
  }
  Integers operator-(int number) const {
    const __m256i same = _mm256_set1_epi32(number);
    return {_mm256_sub_epi32(eight[0], same), _mm256_sub_epi32(eight[1], same)};
  }
};

// A number of each output, to be stored as scale or minimum of a half of a group.
struct Numbers {
  __m256 eight[2];

  void store(std::uint8_t* to) const {
    _mm256_storeu_ps(reinterpret_cast<float*>(to), eight[0]);
    _mm256_storeu_ps(reinterpret_cast<float*>(to) + 8, eight[1]);
  }
  Numbers operator*(const Numbers& other) const {
    return {{_mm256_mul_ps(eight[0], other.eight[0]), _mm256_mul_ps(eight[1], other.eight[1])}};
  }
  Numbers operator*(const Integers& factors) const {
    return *this *
           Numbers{{_mm256_cvtepi32_ps(factors.eight[0]), _mm256_cvtepi32_ps(factors.eight[1])}};
  }
  Numbers operator-(float number) const {
    const __m256 same = _mm256_set1_ps(number);
    return {{_mm256_sub_ps(eight[0], same), _mm256_sub_ps(eight[1], same)}};
  }
  Numbers operator-() const {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {{_mm256_xor_ps(eight[0], sign), _mm256_xor_ps(eight[1], sign)}};
  }
};

// 32 bits of each output, as integers.
inline Integers words(const std::uint8_t* from, std::int64_t stride) {
  const auto word = [&](int n) __attribute__((always_inline)) {
    int bits = 0;
    __builtin_memcpy(&bits, from + n * stride, sizeof(bits));
    return bits;
  };
  return {_mm256_setr_epi32(word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)),
          _mm256_setr_epi32(word(8), word(9), word(10), word(11), word(12), word(13), word(14),
                            word(15))};
}

// Half precision in the low bits of each integer.
inline Numbers halves(const Integers& bits) {
  const auto widen = [](__m256i words) __attribute__((always_inline)) {
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF));
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(pairs));
  };
  return {{widen(bits.eight[0]), widen(bits.eight[1])}};
}

// Half precision at `from` of each output, with two bytes behind or before it that may be read.
inline Numbers halves_at(const std::uint8_t* from, std::int64_t stride) {
  return halves(words(from, stride));
}
inline Numbers halves_behind(const std::uint8_t* from, std::int64_t stride) {
  return halves(words(from - 2, stride).bits(16, 16));
}

constexpr GroupLayout kHalves = group_layout(WeightLayout::kInt8Halves);
constexpr std::int64_t kScales = kHalves.scale_offset();

inline void store_scale(const Numbers& scale, std::uint8_t* group) {
  scale.store(group + kScales);
  scale.store(group + kScales + 64);
}

// 64 bytes of 2-bit codes of all outputs as the codes of eight groups, `group_bytes` apart: in each
// 32 bytes, group g % 4 has bits 2 (g % 4) and above. finish(codes, g, i) makes of the codes of
// vector i of a group what is stored.
template <typename Finish>
void expand_two_bits(const std::uint8_t* codes, std::int64_t stride, std::int64_t group_bytes,
                     std::uint8_t* panel, const Finish& finish) {
  const __m256i mask = _mm256_set1_epi8(3);
  for (int part = 0; part < 8; ++part) {  // outputs from 8 (part % 2) on, bytes from 16 (part / 2)
    const int from = part / 2 * 16;
    const Columns columns(codes + part % 2 * 8 * stride + from, stride);
    QUIRE_UNROLL
    for (int u = 0; u < 4; ++u) {
      const int line = from % 32 / 4 + u;
      QUIRE_UNROLL
      for (int shift = 0; shift < 4; ++shift) {
        const int g = part / 4 * 4 + shift;
        const __m256i two_bits =
            _mm256_and_si256(_mm256_srli_epi16(columns.word[u], 2 * shift), mask);
        store_line(panel + g * group_bytes + line * kLine + part % 2 * 32,
                   finish(two_bits, g, line * 2 + part % 2));
      }
    }
  }
}

}  // namespace
}  // namespace quire
