// AVX-512 intrinsics that SIMDe 0.7.4 does not have, for intrinsics.h when it emulates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace quire {
namespace {

inline __m512 emulated_maskz_loadu_ps(std::uint32_t mask, const float* from) {
  float lanes[16] = {};
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1U) != 0) lanes[i] = from[i];
  }
  return _mm512_loadu_ps(lanes);
}

inline void emulated_mask_storeu_ps(float* to, std::uint32_t mask, __m512 x) {
  float lanes[16];
  _mm512_storeu_ps(lanes, x);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1U) != 0) to[i] = lanes[i];
  }
}

// Each number of half or a quarter of a vector.
template <typename To, typename From, typename Vector>
__m512i emulated_widen(Vector x) {
  constexpr int kCount = sizeof(__m512i) / sizeof(To);
  From from[kCount];
  static_assert(sizeof(from) == sizeof(x));
  To to[kCount];
  std::memcpy(from, &x, sizeof(from));
  for (int i = 0; i < kCount; ++i) to[i] = To{from[i]};
  return _mm512_loadu_si512(to);
}

inline __m256i emulated_cvtepi32_epi16(__m512i x) {
  std::uint32_t from[16];
  std::uint16_t to[16];
  _mm512_storeu_si512(from, x);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::uint16_t>(from[i]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(to));
}

inline __m128i emulated_cvtepi32_epi8(__m512i x) {
  std::uint32_t from[16];
  std::uint8_t to[16];
  _mm512_storeu_si512(from, x);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::uint8_t>(from[i]);
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(to));
}

inline __m512i emulated_cvtps_epi32(__m512 x) {
  float from[16];
  std::int32_t to[16];
  _mm512_storeu_ps(from, x);
  for (int i = 0; i < 16; ++i) to[i] = _mm_cvtss_si32(_mm_set_ss(from[i]));
  return _mm512_loadu_si512(to);
}

inline int emulated_reduce_add_epi32(__m512i x) {
  std::uint32_t lanes[16];
  std::uint32_t sum = 0;
  _mm512_storeu_si512(lanes, x);
  for (const std::uint32_t lane : lanes) sum += lane;
  return static_cast<int>(sum);
}

inline int emulated_reduce_max_epi32(__m512i x) {
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, x);
  std::int32_t largest = lanes[0];
  for (const std::int32_t lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

inline __m512 emulated_cvtepi32_ps(__m512i x) {
  std::int32_t from[16];
  float to[16];
  _mm512_storeu_si512(from, x);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<float>(from[i]);
  return _mm512_loadu_ps(to);
}

inline __m512 emulated_cvtph_ps(__m256i x) {
  float to[16];
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm256_castsi256_si128(x)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
  return _mm512_loadu_ps(to);
}

inline __m512 emulated_gather_ps(__m512i index, const void* table) {
  std::int32_t places[16];
  float found[16];
  _mm512_storeu_si512(places, index);
  for (int i = 0; i < 16; ++i) {
    std::memcpy(&found[i], static_cast<const char*>(table) + 4 * std::ptrdiff_t{places[i]}, 4);
  }
  return _mm512_loadu_ps(found);
}

inline __m512i emulated_srai_epi32(__m512i x, int bits) {
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, x);
  for (std::int32_t& lane : lanes) lane >>= bits;
  return _mm512_loadu_si512(lanes);
}

}  // namespace
}  // namespace quire

// The intrinsics' own names, which is what this file is for.
// NOLINTBEGIN(bugprone-reserved-identifier)
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps quire::emulated_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps quire::emulated_mask_storeu_ps
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(x) (quire::emulated_widen<std::uint32_t, std::uint16_t>(x))
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(x) (quire::emulated_widen<std::uint32_t, std::uint8_t>(x))
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(x) (quire::emulated_widen<std::int32_t, std::int8_t>(x))
#undef _mm512_cvtepi16_epi32
#define _mm512_cvtepi16_epi32(x) (quire::emulated_widen<std::int32_t, std::int16_t>(x))
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16(x) (quire::emulated_widen<std::uint16_t, std::uint8_t>(x))
#undef _mm512_cvtepi8_epi16
#define _mm512_cvtepi8_epi16(x) (quire::emulated_widen<std::int16_t, std::int8_t>(x))
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 quire::emulated_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 quire::emulated_cvtepi32_epi8
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 quire::emulated_cvtps_epi32
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32 quire::emulated_reduce_add_epi32
#undef _mm512_reduce_max_epi32
#define _mm512_reduce_max_epi32 quire::emulated_reduce_max_epi32
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps quire::emulated_cvtepi32_ps
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps quire::emulated_cvtph_ps
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 quire::emulated_srai_epi32
#undef _mm512_i32gather_ps
#define _mm512_i32gather_ps(index, table, scale) (quire::emulated_gather_ps(index, table))
// SIMDe 0.7.4 gives this alias the parameters of the masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
// NOLINTEND(bugprone-reserved-identifier)
