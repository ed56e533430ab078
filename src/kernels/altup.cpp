// Alternating updates of a token's streams, and the gates that go with them in Gemma 3n.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr Stage kPredictStage = {StageKind::kKernel, "predict streams"};
constexpr Stage kCorrectStage = {StageKind::kKernel, "correct streams"};
constexpr Stage kMatchStage = {StageKind::kKernel, "match_rms"};
constexpr Stage kKeepLargestStage = {StageKind::kKernel, "keep_largest"};

// Numbers below which handing work to another thread costs more than it saves.
constexpr std::int64_t kStreamGrain = 8192;
// Columns of all streams that are read before one is written.
constexpr std::int64_t kColumnsAtOnce = 64;

std::int64_t rows_at_once(std::int64_t numbers_of_row) {
  return std::max<std::int64_t>(1, kStreamGrain / std::max<std::int64_t>(numbers_of_row, 1));
}

// sum_i of_number(x[i]), in an order that nothing else has a part in.
template <typename OfNumber>
double sum_of_row(const float* x, std::int64_t cols, OfNumber of_number) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<std::size_t>(lane)] += of_number(double{x[i + lane]});
    }
  }
  for (; i < cols; ++i) sums[0] += of_number(double{x[i]});
  double sum = 0.0;
  for (const double part : sums) sum += part;
  return sum;
}

double mean_square(const float* x, std::int64_t cols) {
  return sum_of_row(x, cols, [](double v) { return v * v; }) / static_cast<double>(cols);
}

using Modalities = std::array<float, kMaxStreams>;

Modalities modalities_of(const AltUpArgs& args, std::int64_t row) {
  Modalities modalities{};
  for (std::int64_t k = 0; k < args.num_streams; ++k) {
    modalities[static_cast<std::size_t>(k)] =
        std::tanh(args.router[row * args.num_streams + k] * args.router_scale);
  }
  return modalities;
}

// `count` sums over the modalities.
void weigh_modalities(const AltUpArgs& args, const Modalities& modalities, std::int64_t count,
                      float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0.0F;
    for (std::int64_t k = 0; k < args.num_streams; ++k) {
      sum += args.weight[i * args.num_streams + k] * modalities[static_cast<std::size_t>(k)];
    }
    out[i] = sum;
  }
}

// `streams`: the row of the first; the others follow `stride` numbers apart.
void predict_row(const AltUpArgs& args, std::int64_t row, std::int64_t cols, std::int64_t stride,
                 float* streams) {
  const std::int64_t count = args.num_streams;
  std::array<float, kMaxStreams * kMaxStreams> factors{};
  weigh_modalities(args, modalities_of(args, row), count * count, factors.data());
  std::array<std::array<float, kColumnsAtOnce>, kMaxStreams> before;
  for (std::int64_t begin = 0; begin < cols; begin += kColumnsAtOnce) {
    const std::int64_t width = std::min(kColumnsAtOnce, cols - begin);
    for (std::int64_t j = 0; j < count; ++j) {
      std::copy_n(streams + j * stride + begin, width, before[static_cast<std::size_t>(j)].data());
    }
    for (std::int64_t i = 0; i < count; ++i) {
      float* const out = streams + i * stride + begin;
      for (std::int64_t j = 0; j < count; ++j) {
        const float factor = factors[static_cast<std::size_t>(i * count + j)];
        const float* const from = before[static_cast<std::size_t>(j)].data();
        for (std::int64_t c = 0; c < width; ++c) out[c] += factor * from[c];
      }
    }
  }
}

void correct_row(const AltUpArgs& args, std::int64_t row, std::int64_t cols, std::int64_t stride,
                 float* streams, float* x) {
  const std::int64_t count = args.num_streams;
  std::array<float, kMaxStreams> factors{};
  weigh_modalities(args, modalities_of(args, row), count, factors.data());
  const float* const active = streams + args.active * stride;
  for (std::int64_t c = 0; c < cols; ++c) x[c] -= active[c];
  for (std::int64_t i = 0; i < count; ++i) {
    const float factor = 1.0F + factors[static_cast<std::size_t>(i)];
    float* const out = streams + i * stride;
    for (std::int64_t c = 0; c < cols; ++c) out[c] += factor * x[c];
  }
}

}  // namespace

void predict_streams(OpContext& ctx, std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                     float* out) {
  assert(args.num_streams >= 2 && args.num_streams <= kMaxStreams);
  const OpSpan span(ctx, kPredictStage);
  const std::int64_t stride = rows * cols;
  ctx.pool.parallel_for(rows, rows_at_once(args.num_streams * cols),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          for (std::int64_t row = begin; row < end; ++row) {
                            float* const streams = args.streams + row * cols;
                            predict_row(args, row, cols, stride, streams);
                            std::copy_n(streams + args.active * stride, cols, out + row * cols);
                          }
                        });
}

void correct_streams(OpContext& ctx, std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                     const float* scale, float* x) {
  assert(args.num_streams >= 2 && args.num_streams <= kMaxStreams);
  const OpSpan span(ctx, kCorrectStage);
  const std::int64_t stride = rows * cols;
  ctx.pool.parallel_for(rows, rows_at_once(args.num_streams * cols),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          for (std::int64_t row = begin; row < end; ++row) {
                            float* const streams = args.streams + row * cols;
                            float* const values = x + row * cols;
                            correct_row(args, row, cols, stride, streams, values);
                            const float* const active = streams + args.active * stride;
                            for (std::int64_t c = 0; c < cols; ++c) {
                              values[c] = scale == nullptr ? active[c] : active[c] * scale[c];
                            }
                          }
                        });
}

void match_rms(OpContext& ctx, const float* like, float floor, std::int64_t rows, std::int64_t cols,
               float* x) {
  const OpSpan span(ctx, kMatchStage);
  ctx.pool.parallel_for(rows, rows_at_once(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin * cols; i < end * cols; i += cols) {
      const double own = std::max(mean_square(x + i, cols), double{floor});
      const auto factor = static_cast<float>(std::sqrt(mean_square(like + i, cols) / own));
      for (std::int64_t c = i; c < i + cols; ++c) x[c] *= factor;
    }
  });
}

void keep_largest(OpContext& ctx, float deviations, std::int64_t rows, std::int64_t cols,
                  float* x) {
  const OpSpan span(ctx, kKeepLargestStage);
  ctx.pool.parallel_for(rows, rows_at_once(cols), [&](std::int64_t begin, std::int64_t end, int) {
    for (float* row = x + begin * cols; row < x + end * cols; row += cols) {
      const auto count = static_cast<double>(cols);
      const double mean = sum_of_row(row, cols, [](double v) { return v; }) / count;
      const double variance =
          sum_of_row(row, cols, [&](double v) { return (v - mean) * (v - mean); }) / count;
      const auto cutoff = static_cast<float>(mean + double{deviations} * std::sqrt(variance));
      for (std::int64_t c = 0; c < cols; ++c) {
        const float above = row[c] - cutoff;
        row[c] = above < 0.0F ? 0.0F : above;  // NaN stays
      }
    }
  });
}

}  // namespace quire
