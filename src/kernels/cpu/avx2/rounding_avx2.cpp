#include "kernels/cpu/avx2/matmul_avx2.h"
#include "kernels/cpu/unroll.h"
#include "kernels/cpu/vec_avx2.h"

namespace quire {
namespace {

// The largest bit pattern of eight lanes, none negative.
int largest_lane(__m256i x) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

int sum_lanes(__m256i x) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

// A group of 32 inputs as integer codes in order, and the sums of each half of them.
struct RoundedGroup {
  __m256i codes[4];
  float scale;
  int first;
  int second;
};

// `scale_of`: int8_scale() or int16_scale().
template <typename ScaleOf>
[[gnu::always_inline]] inline RoundedGroup round_group(const float* x, const ScaleOf& scale_of) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256 values[4];
  __m256i largest = _mm256_setzero_si256();
  QUIRE_UNROLL
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_loadu_ps(x + i * 8);
    largest =
        _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(values[i]), magnitude));
  }
  const RoundingScale scale = scale_of(largest_lane(largest));
  const __m256 inverse = _mm256_set1_ps(scale.inverse);
  // Where the inverse is zero the codes are, whatever the values.
  const __m256i kept = _mm256_set1_epi32(scale.inverse != 0.0F ? -1 : 0);
  RoundedGroup group;
  QUIRE_UNROLL
  for (int i = 0; i < 4; ++i) {
    group.codes[i] = _mm256_and_si256(kept, _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse)));
  }
  group.scale = scale.scale;
  group.first = sum_lanes(_mm256_add_epi32(group.codes[0], group.codes[1]));
  group.second = sum_lanes(_mm256_add_epi32(group.codes[2], group.codes[3]));
  return group;
}

void quantize_row_int8(const float* x, std::int64_t inputs, const Int8Rows& out) {
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const RoundedGroup group = round_group(x + g * kGroupInputs, int8_scale);
    out.scales[g] = group.scale;
    out.sums[2 * g] = static_cast<std::int16_t>(group.first);
    out.sums[2 * g + 1] = static_cast<std::int16_t>(group.second);
    out.scaled_sums[g] = group.scale * static_cast<float>(group.first + group.second);
    out.offsets[g] = -128 * (group.first + group.second);
    // Packing works within 128-bit halves; the permutation puts the quads back in order.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(group.codes[0], group.codes[1]),
                                             _mm256_packs_epi32(group.codes[2], group.codes[3]));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(out.codes + g * kGroupInputs),
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
}

void quantize_row_int16(const float* x, std::int64_t inputs, std::int64_t block_rows,
                        const Int16Rows& out) {
  std::int16_t* codes = out.codes;
  for (std::int64_t g = 0; g < inputs / kGroupInputs; ++g) {
    const RoundedGroup group = round_group(x + g * kGroupInputs, int16_scale);
    out.scales[g * block_rows] = group.scale;
    out.sums[2 * g * block_rows] = group.first;
    out.sums[(2 * g + 1) * block_rows] = group.second;
    out.scaled_sums[g * block_rows] = group.scale * static_cast<float>(group.first + group.second);
    QUIRE_UNROLL
    for (int i = 0; i < 4; i += 2) {
      // In 128-bit halves: quads 0 and 2, then 1 and 3; each in the order 0, 2, 1, 3.
      const __m256i packed = _mm256_packs_epi32(group.codes[i], group.codes[i + 1]);
      const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,
                                             0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
      const __m256i quads = _mm256_shuffle_epi8(packed, order);
      const __m128i low = _mm256_castsi256_si128(quads);
      const __m128i high = _mm256_extracti128_si256(quads, 1);
      const auto put = [&](__m128i quad) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(codes), quad);
        codes += 4 * block_rows;
      };
      put(low);
      put(high);
      put(_mm_unpackhi_epi64(low, low));
      put(_mm_unpackhi_epi64(high, high));
    }
  }
}

}  // namespace

void set_avx2_rounding(MatmulKernels& kernels) {
  kernels.quantize_row_int8 = quantize_row_int8;
  kernels.quantize_row_int16 = quantize_row_int16;
}

}  // namespace quire
