// The gated short convolution (kernels/state_runs.h). Runs go side by side: what a row needs of g
// is computed from x anew, to the same bits, where it is of a row of this step, so that no run
// waits for the state of the one before it; x is left as it is.
//
// The state that a sequence's step begins with is read by the blocks of its first run alone, which
// may replace it in its place: they go on into the runs that follow for as long as these see it.
#include <cstdint>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/rows.h"

namespace quire::cuda {
namespace {

constexpr unsigned kConvThreads = 128;

// One channel of one sequence, from row to row. kMostTaps: at least args.taps.
template <int kMostTaps>
class ChannelWalk {
 public:
  __device__ ChannelWalk(const ShortConvArgs& args, std::int64_t channel)
      : args_(args), channel_(channel) {
#pragma unroll
    for (int back = 0; back < kMostTaps; ++back) {
      if (back < args.taps) weight_[back] = args.weight[(channel + 1) * args.taps - 1 - back];
    }
  }

  __device__ void take_state(BlockId page) {
    if (page == kNullBlock) return;
    const float* const state = state_of(page);
#pragma unroll
    for (int back = 1; back < kMostTaps; ++back) {
      if (back < args_.taps) past_[back] = state[(args_.taps - 1 - back) * args_.channels];
    }
  }

  __device__ void take_rows_before(std::int64_t row) {
#pragma unroll
    for (int back = 1; back < kMostTaps; ++back) {
      if (back < args_.taps) past_[back] = read(row - back).g;
    }
  }

  __device__ void convolve(std::int64_t begin, std::int64_t end) {
    constexpr int kAtOnce = 4;  // rows that are read before any of them is needed
    for (std::int64_t first = begin; first < end; first += kAtOnce) {
      Input inputs[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) inputs[i] = read(first + i);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) step(inputs[i], first + i);
      }
    }
  }

  __device__ void leave_state(BlockId page) const {
    float* const state = state_of(page);
#pragma unroll
    for (int back = 1; back < kMostTaps; ++back) {
      if (back < args_.taps) state[(args_.taps - 1 - back) * args_.channels] = past_[back];
    }
  }

 private:
  struct Input {
    float g = 0.0F;
    float output_gate = 0.0F;
  };
  __device__ Input read(std::int64_t row) const {
    const float* const x = args_.x + row * 3 * args_.channels + channel_;
    return {__fmul_rn(x[0], x[2 * args_.channels]), x[args_.channels]};
  }

  // Rounds each product, as the CPU does.
  __device__ void step(const Input& input, std::int64_t row) {
    past_[0] = input.g;
    float sum = 0.0F;
#pragma unroll
    for (int back = kMostTaps - 1; back >= 0; --back) {
      if (back < args_.taps) sum = __fadd_rn(sum, __fmul_rn(weight_[back], past_[back]));
    }
    if (args_.bias != nullptr) sum += args_.bias[channel_];
    args_.out[row * args_.channels + channel_] = input.output_gate * sum;
#pragma unroll
    for (int back = kMostTaps - 1; back > 0; --back) past_[back] = past_[back - 1];
  }

  __device__ float* state_of(BlockId page) const {
    return reinterpret_cast<float*>(args_.states.data +
                                    static_cast<std::uint64_t>(page) * args_.states.stride) +
           channel_;
  }

  const ShortConvArgs& args_;
  std::int64_t channel_;
  float weight_[kMostTaps] = {};  // [i]: of the row i rows before the one that is computed
  float past_[kMostTaps] = {};    // g of these rows, zeros before a sequence's first
};

// Whether `run` goes on where the run before it ends.
__device__ bool continues(const StateRun& before, const StateRun& run) {
  return run.source != kNullBlock && run.source == before.target &&
         run.first_row == before.first_row + before.num_rows;
}

// A sequence's first run of the step, and rows of those after it that see the state before it.
template <int kMostTaps>
__device__ void walk_from_state(const ShortConvArgs& args, std::int64_t index,
                                ChannelWalk<kMostTaps>& walk) {
  const StateRun* const runs = args.states.runs;
  walk.take_state(runs[index].source);
  walk.convolve(runs[index].first_row, runs[index].first_row + runs[index].num_rows);
  walk.leave_state(runs[index].target);
  std::int32_t left = args.taps - 1 - runs[index].num_rows;
  for (++index; left > 0 && index < args.states.num_runs; ++index) {
    const StateRun run = runs[index];
    if (!continues(runs[index - 1], run)) return;
    const std::int32_t rows = run.num_rows < left ? run.num_rows : left;
    walk.convolve(run.first_row, run.first_row + rows);
    if (rows == run.num_rows) walk.leave_state(run.target);
    left -= rows;
  }
}

// Blocks along x have the channels, those along y the runs.
template <int kMostTaps>
__global__ void __launch_bounds__(kConvThreads) convolve_runs(ShortConvArgs args) {
  let_next_start();
  wait_for_previous();
  const std::int64_t channel = std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  if (channel >= args.channels) return;
  const StateRun* const runs = args.states.runs;
  for (std::int64_t index = blockIdx.y; index < args.states.num_runs; index += gridDim.y) {
    ChannelWalk<kMostTaps> walk(args, channel);
    if (index == 0 || !continues(runs[index - 1], runs[index])) {
      walk_from_state(args, index, walk);
      continue;
    }
    // Rows that see the state before the step are computed with the sequence's first run.
    std::int32_t seen = args.taps - 1;
    for (std::int64_t i = index; seen > 0 && i > 0 && continues(runs[i - 1], runs[i]); --i) {
      seen -= runs[i - 1].num_rows;
    }
    const StateRun run = runs[index];
    const std::int32_t skipped = seen > 0 ? seen : 0;
    if (skipped >= run.num_rows) continue;
    walk.take_rows_before(run.first_row + skipped);
    walk.convolve(run.first_row + skipped, run.first_row + run.num_rows);
    walk.leave_state(run.target);
  }
}

}  // namespace

void short_conv(const Launch& launch, std::int64_t rows, const ShortConvArgs& args) {
  if (rows == 0 || args.states.num_runs == 0) return;
  constexpr std::int64_t kMostRuns = 65535;
  constexpr int kFewTaps = 4;
  const std::int64_t runs = args.states.num_runs < kMostRuns ? args.states.num_runs : kMostRuns;
  const dim3 grid(static_cast<unsigned>((args.channels + kConvThreads - 1) / kConvThreads),
                  static_cast<unsigned>(runs));
  launch_dependent(args.taps <= kFewTaps ? convolve_runs<kFewTaps> : convolve_runs<kMaxConvTaps>,
                   grid, kConvThreads, 0, launch.stream, args);
}

}  // namespace quire::cuda
