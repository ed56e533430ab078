#include "quant/load_quantization.h"

#include <algorithm>
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

float sum_of_lanes(__m128 x) {
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}

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

// The half-precision numbers of a range, and the factor that takes weights to codes.
struct Grid {
  Int4Scale halves;
  float scale = 0.0F;
  float minimum = 0.0F;
  float inverse = 0.0F;
};

Grid grid_of(Range range) {
  Grid grid;
  grid.halves = {float_to_f16((range.high - range.low) / 15.0F), float_to_f16(range.low)};
  grid.scale = f16_to_float(grid.halves.scale);
  grid.minimum = f16_to_float(grid.halves.minimum);
  grid.inverse = grid.scale < kSmallest ? 0.0F : 1.0F / grid.scale;
  return grid;
}

// Takes four weights to places between 0 and 15, not rounded yet, then to codes.
struct Place {
  __m128 minimum;
  __m128 inverse;

  explicit Place(const Grid& grid)
      : minimum(_mm_set1_ps(grid.minimum)), inverse(_mm_set1_ps(grid.inverse)) {}

  __m128 of(const float* weights) const {
    return _mm_mul_ps(_mm_sub_ps(_mm_loadu_ps(weights), minimum), inverse);
  }
  static __m128 clamp(__m128 place) {
    return _mm_min_ps(_mm_max_ps(place, _mm_setzero_ps()), _mm_set1_ps(15.0F));
  }
};

float squared_error(const Grid& grid, const float* weights, std::int64_t count) {
  const Place place(grid);
  __m128 sums[2] = {};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    for (int j = 0; j < 2; ++j) {
      const __m128 exact = place.of(weights + i + 4 * j);
      const __m128 code = _mm_cvtepi32_ps(_mm_cvtps_epi32(Place::clamp(exact)));
      const __m128 rest = _mm_sub_ps(exact, code);
      sums[j] = _mm_add_ps(sums[j], _mm_mul_ps(rest, rest));
    }
  }
  return grid.scale * grid.scale * sum_of_lanes(_mm_add_ps(sums[0], sums[1]));
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
  Grid best = grid_of(range);
  float best_error = squared_error(best, weights, count);
  for (const float kept : {0.9F, 0.8F}) {
    const float cut = (1.0F - kept) / 2.0F * (range.high - range.low);
    const Grid grid = grid_of({range.low + cut, range.high - cut});
    const float error = squared_error(grid, weights, count);
    if (error < best_error) {
      best_error = error;
      best = grid;
    }
  }
  const Place place(best);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __m128i low = _mm_cvtps_epi32(Place::clamp(place.of(weights + i)));
    const __m128i high = _mm_cvtps_epi32(Place::clamp(place.of(weights + i + 4)));
    const __m128i pairs = _mm_packs_epi32(low, high);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + i), _mm_packus_epi16(pairs, pairs));
  }
  return best.halves;
}

}  // namespace quire
