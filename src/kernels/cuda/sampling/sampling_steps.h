// The kernels that sample_rows() (kernels/cuda/sampling.h) is made of.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling/sampling.h"

namespace quire::cuda {

// Rows of logits, and what the edits of those that have any made of them.
struct SampledRows {
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  const float* logits = nullptr;     // [num_rows][vocab_size]
  const RowBest* best = nullptr;     // [num_rows]
  float* edited = nullptr;           // [num_rows][vocab_size]
  RowBest* edited_best = nullptr;    // [num_rows]
  std::uint32_t* marks = nullptr;    // [num_rows][vocab_size], scratch of edit_rows()
  const SampleArgs* args = nullptr;  // [num_rows]
  DeviceSample* samples = nullptr;   // [num_rows]

  bool aligned() const;
};

// Fills in `edited` and `edited_best` of rows with edits.
void edit_rows(const Launch& launch, const SampledRows& rows);

// Fills in all but log probabilities, ranks and the most probable tokens.
void draw_tokens(const Launch& launch, const SampledRows& rows);

// Fills in these.
void add_logprobs(const Launch& launch, const SampledRows& rows);

}  // namespace quire::cuda
