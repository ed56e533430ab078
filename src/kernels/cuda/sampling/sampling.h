// Choosing and scoring tokens where the logits are: what kernels/sampling/ does on the CPU.
//
// The same token as there. Weights have the same bits; what is kept is decided by integers and by
// the order of logits. Sums of weights are the only numbers that differ: the CPU adds weights in
// double in the order of the tokens, here they are added as trees. Most often both are exact, where
// all weights are multiples of one number and their sum is below 2^53 of it, as it is once top_k,
// top_p or min_p have left out small ones. Else a sum of n weights on the CPU is off by at most
// n 2^-53 of itself (Higham 2002, Accuracy and Stability of Numerical Algorithms, 4.2): a token is
// given only where its border lies further from what is sought than twice that. Where it does not,
// about one row in 10^5, the token is left to the CPU (`decided`).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/row_args.h"
#include "kernels/sampling_args.h"

namespace quire::cuda {

struct DeviceSample {
  RowSample sample;
  // Where not, `sample` counts for nothing, and the definition has to be asked: borders within
  // rounding errors, inverse temperatures beyond float32, more than kMostDeviceBiases biases or
  // kMostDeviceTop most probable tokens. Rows that are not finite are decided.
  bool decided = false;
};
inline constexpr std::size_t kMostDeviceBiases = 4096;
inline constexpr std::size_t kMostDeviceTop = 256;

// What any of some rows asks for; what none does costs nothing.
struct SamplingNeeds {
  bool edits = false;
  bool logprobs = false;
};

// Whether rows of so many tokens are sampled here.
bool samples_vocabulary(std::int64_t vocab_size);

// Scratch of sample_rows(): of edited rows.
std::uint64_t sampling_workspace_bytes(std::int64_t vocab_size, std::int64_t max_rows);

// logits: [num_rows][vocab_size]; best: the largest of each row. `rows`, with all their lists, and
// `samples` are in the device's memory.
void sample_rows(const Launch& launch, const float* logits, const RowBest* best,
                 std::int64_t vocab_size, const SampleArgs* rows, std::int64_t num_rows,
                 SamplingNeeds needs, DeviceSample* samples);
void score_rows(const Launch& launch, const float* logits, const RowBest* best,
                std::int64_t vocab_size, const ScoreArgs* rows, std::int64_t num_rows,
                DeviceSample* scores);

}  // namespace quire::cuda
