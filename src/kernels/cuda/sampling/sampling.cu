#include <algorithm>

#include "kernels/cuda/rows/cluster_row.cuh"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/cuda/sampling/sampling_steps.h"

namespace quire::cuda {
namespace {

// Rows whose copies there is room for at once.
constexpr std::int64_t kMostEditedRows = 32;

// Scratch of one edited row: its logits, its marks, its best.
std::uint64_t bytes_of_edited_row(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size) * (sizeof(float) + sizeof(std::uint32_t)) +
         sizeof(RowBest);
}

// Places for `count` edited rows.
void place_edited(std::byte* workspace, std::int64_t count, SampledRows& rows) {
  rows.edited = reinterpret_cast<float*>(workspace);
  rows.marks = reinterpret_cast<std::uint32_t*>(rows.edited + count * rows.vocab_size);
  rows.edited_best = reinterpret_cast<RowBest*>(rows.marks + count * rows.vocab_size);
}

}  // namespace

bool SampledRows::aligned() const { return quads_are_aligned(logits, vocab_size); }

bool samples_vocabulary(std::int64_t vocab_size) { return vocab_size <= kMostTokens; }

std::uint64_t sampling_workspace_bytes(std::int64_t vocab_size, std::int64_t max_rows) {
  return static_cast<std::uint64_t>(std::min(max_rows, kMostEditedRows)) *
         bytes_of_edited_row(vocab_size);
}

void sample_rows(const Launch& launch, const float* logits, const RowBest* best,
                 std::int64_t vocab_size, const SampleArgs* rows, std::int64_t num_rows,
                 SamplingNeeds needs, DeviceSample* samples) {
  const std::int64_t at_once = needs.edits ? std::min(num_rows, kMostEditedRows) : num_rows;
  for (std::int64_t first = 0; first < num_rows; first += at_once) {
    SampledRows some = {.num_rows = std::min(at_once, num_rows - first),
                        .vocab_size = vocab_size,
                        .logits = logits + first * vocab_size,
                        .best = best + first,
                        .args = rows + first,
                        .samples = samples + first};
    if (needs.edits) {
      place_edited(launch.workspace, at_once, some);
      edit_rows(launch, some);
    }
    draw_tokens(launch, some);
    if (needs.logprobs) add_logprobs(launch, some);
  }
}

}  // namespace quire::cuda
