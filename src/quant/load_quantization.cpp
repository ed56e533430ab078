#include "quant/load_quantization.h"

#include <algorithm>
#include <cmath>
#include <emmintrin.h>

#include <fmt/format.h>

#include "tensor/float_convert.h"

namespace quire {
namespace {

// The least magnitude whose inverse is finite.
constexpr float kSmallest = 0x1p-119F;

struct Range {
  float low = 0.0F;
  float high = 0.0F;
};

// Vectors of four, which every x86-64 processor has, in `kLanes` lanes: the same bits everywhere.
constexpr std::int64_t kLanes = 8;

float smallest_lane(__m128 x) {
  x = _mm_min_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_min_ss(x, _mm_shuffle_ps(x, x, 1)));
}

float largest_lane(__m128 x) { return -smallest_lane(_mm_sub_ps(_mm_setzero_ps(), x)); }

// `count` is a multiple of kLanes.
Range range_of(const float* weights, std::int64_t count) {
  __m128 low[2] = {_mm_loadu_ps(weights), _mm_loadu_ps(weights + 4)};
  __m128 high[2] = {low[0], low[1]};
  for (std::int64_t i = kLanes; i < count; i += kLanes) {
    for (int j = 0; j < 2; ++j) {
      const __m128 values = _mm_loadu_ps(weights + i + 4 * j);
      low[j] = _mm_min_ps(low[j], values);
      high[j] = _mm_max_ps(high[j], values);
    }
  }
  return {smallest_lane(_mm_min_ps(low[0], low[1])), largest_lane(_mm_max_ps(high[0], high[1]))};
}

}  // namespace

std::string_view load_quantization_name(LoadQuantization quantization) {
  switch (quantization) {
    case LoadQuantization::kNone:
      return "none";
    case LoadQuantization::kInt8:
      return "int8";
    case LoadQuantization::kInt4:
      return "int4";
  }
  return "?";
}

Result<LoadQuantization> parse_load_quantization(std::string_view name) {
  for (const auto quantization :
       {LoadQuantization::kNone, LoadQuantization::kInt8, LoadQuantization::kInt4}) {
    if (name == load_quantization_name(quantization)) return quantization;
  }
  return Status::invalid_argument(
      fmt::format("--quantization {}: no such quantization at load", name),
      "use none, int8 or int4; checkpoints that are quantized already are read as they are");
}

float quantize_int8_row(const float* weights, std::int64_t count, std::int8_t* codes) {
  const Range range = range_of(weights, count);
  const float largest = std::max(-range.low, range.high);
  // A row that small is zero to any product.
  const float inverse = largest < kSmallest ? 0.0F : 127.0F / largest;
  const __m128 factor = _mm_set1_ps(inverse);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __m128i low = _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(weights + i), factor));
    const __m128i high = _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(weights + i + 4), factor));
    const __m128i pairs = _mm_packs_epi32(low, high);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + i), _mm_packs_epi16(pairs, pairs));
  }
  return inverse == 0.0F ? 0.0F : largest / 127.0F;
}

Int4Scale quantize_int4_group(const float* weights, std::int64_t count, std::uint8_t* codes) {
  const Range range = range_of(weights, count);
  Int4Scale halves;
  halves.scale = float_to_f16((range.high - range.low) / 15.0F);
  const float scale = f16_to_float(halves.scale);
  const float inverse = scale < kSmallest ? 0.0F : 1.0F / scale;
  // A whole number of steps, so that zero is a code's value.
  halves.minimum =
      float_to_f16(inverse == 0.0F ? range.low : std::nearbyint(range.low * inverse) * scale);
  const __m128 minimum = _mm_set1_ps(f16_to_float(halves.minimum));
  const __m128 factor = _mm_set1_ps(inverse);
  const auto place = [&](const float* four) {
    const __m128 steps = _mm_mul_ps(_mm_sub_ps(_mm_loadu_ps(four), minimum), factor);
    const __m128 positive = _mm_max_ps(steps, _mm_setzero_ps());
    return _mm_cvtps_epi32(_mm_min_ps(positive, _mm_set1_ps(15.0F)));
  };
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __m128i pairs = _mm_packs_epi32(place(weights + i), place(weights + i + 4));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + i), _mm_packus_epi16(pairs, pairs));
  }
  return halves;
}

}  // namespace quire
