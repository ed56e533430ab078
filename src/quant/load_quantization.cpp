#include "quant/load_quantization.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tensor/float_convert.h"

namespace quire {
namespace {

// Adding it leaves a float's integer part, rounded to nearest even, in the lowest bits.
constexpr float kRoundingBias = 12582912.0F;  // 1.5 * 2^23

float round_to_even(float value) { return value + kRoundingBias - kRoundingBias; }

// The least magnitude whose inverse is finite.
constexpr float kSmallest = 0x1p-119F;

struct Range {
  float low = 0.0F;
  float high = 0.0F;
};

Range range_of(const float* weights, std::int64_t count) {
  // Lanes of their own, so that the compiler can use vectors.
  constexpr std::int64_t kLanes = 8;
  float low[kLanes];
  float high[kLanes];
  std::fill_n(low, kLanes, weights[0]);
  std::fill_n(high, kLanes, weights[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float value = weights[i + j];
      low[j] = value < low[j] ? value : low[j];
      high[j] = value > high[j] ? value : high[j];
    }
  }
  for (; i < count; ++i) {
    low[0] = std::min(low[0], weights[i]);
    high[0] = std::max(high[0], weights[i]);
  }
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes)};
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

float code_of(const Grid& grid, float weight) {
  const float place = round_to_even((weight - grid.minimum) * grid.inverse);
  const float positive = place > 0.0F ? place : 0.0F;
  return positive < 15.0F ? positive : 15.0F;
}

float squared_error(const Grid& grid, const float* weights, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float weight = weights[i + j];
      const float rest = grid.scale * code_of(grid, weight) + grid.minimum - weight;
      sums[j] += rest * rest;
    }
  }
  float sum = 0.0F;
  for (const float lane : sums) sum += lane;
  for (; i < count; ++i) {
    const float rest = grid.scale * code_of(grid, weights[i]) + grid.minimum - weights[i];
    sum += rest * rest;
  }
  return sum;
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
  for (std::int64_t i = 0; i < count; ++i) {
    codes[i] =
        static_cast<std::int8_t>(static_cast<std::int32_t>(round_to_even(weights[i] * inverse)));
  }
  return inverse == 0.0F ? 0.0F : largest / 127.0F;
}

Int4Scale quantize_int4_group(const float* weights, std::int64_t count, std::uint8_t* codes) {
  const Range range = range_of(weights, count);
  Grid best = grid_of(range);
  float best_error = squared_error(best, weights, count);
  for (const float kept : {0.95F, 0.9F, 0.85F, 0.8F}) {
    const float cut = (1.0F - kept) / 2.0F * (range.high - range.low);
    const Grid grid = grid_of({range.low + cut, range.high - cut});
    const float error = squared_error(grid, weights, count);
    if (error < best_error) {
      best_error = error;
      best = grid;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(code_of(best, weights[i])));
  }
  return best.halves;
}

}  // namespace quire
