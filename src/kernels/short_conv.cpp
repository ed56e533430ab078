#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/op_span.h"
#include "kernels/ops.h"

namespace quire {
namespace {

constexpr Stage kShortConvStage = {StageKind::kKernel, "short convolution"};

// Multiplications below which handing work to another thread costs more than it saves.
constexpr std::int64_t kConvGrain = 8192;

// The latest rows of g, of all channels; nullptr before the first token.
using History = std::array<const float*, kMaxConvTaps - 1>;

History history_before(const ShortConvArgs& args, const StateRun& run) {
  History history{};
  if (run.source == kNullBlock) return history;
  const float* const state = args.states.state(run.source);
  for (std::int32_t k = 0; k < args.taps - 1; ++k) {
    history[static_cast<std::size_t>(k)] = state + k * args.channels;
  }
  return history;
}

// The channels [begin, end) of one row.
void convolve_row(const ShortConvArgs& args, const History& history, const float* row, float* out,
                  std::int64_t begin, std::int64_t end) {
  const float* const output_gate = row + args.channels;
  const float* const now = row + 2 * args.channels;
  const auto past = static_cast<std::size_t>(args.taps - 1);
  for (std::int64_t c = begin; c < end; ++c) {
    const float* const weight = args.weight + c * args.taps;
    float sum = 0.0F;
    for (std::size_t k = 0; k < past; ++k) {
      if (history[k] != nullptr) sum += weight[k] * history[k][c];
    }
    sum += weight[past] * now[c];
    if (args.bias != nullptr) sum += args.bias[c];
    out[c] = output_gate[c] * sum;
  }
}

// Where a state is replaced in its place, what is read is never behind what is written.
void leave_state(const ShortConvArgs& args, const History& history, const StateRun& run,
                 std::int64_t begin, std::int64_t end) {
  for (std::int32_t k = 0; k < args.taps - 1; ++k) {
    const float* const from = history[static_cast<std::size_t>(k)];
    float* const to = args.states.state(run.target) + k * args.channels;
    for (std::int64_t c = begin; c < end; ++c) to[c] = from == nullptr ? 0.0F : from[c];
  }
}

void convolve_run(const ShortConvArgs& args, const StateRun& run, std::int64_t begin,
                  std::int64_t end) {
  History history = history_before(args, run);
  const auto past = static_cast<std::ptrdiff_t>(args.taps - 1);
  for (std::int64_t r = run.first_row; r < std::int64_t{run.first_row} + run.num_rows; ++r) {
    float* const row = args.x + r * 3 * args.channels;
    float* const now = row + 2 * args.channels;
    for (std::int64_t c = begin; c < end; ++c) now[c] *= row[c];
    convolve_row(args, history, row, args.out + r * args.channels, begin, end);
    std::copy(history.begin() + 1, history.begin() + past, history.begin());
    history[static_cast<std::size_t>(past - 1)] = now;
  }
  leave_state(args, history, run, begin, end);
}

}  // namespace

void short_conv(OpContext& ctx, std::int64_t rows, const ShortConvArgs& args) {
  assert(args.taps >= 2 && args.taps <= kMaxConvTaps);
  const OpSpan span(ctx, kShortConvStage);
  const std::int64_t grain =
      std::max<std::int64_t>(16, kConvGrain / std::max<std::int64_t>(rows * args.taps, 1));
  ctx.pool.parallel_for(args.channels, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = 0; i < args.states.num_runs; ++i) {
      convolve_run(args, args.states.runs[i], begin, end);
    }
  });
}

}  // namespace quire
