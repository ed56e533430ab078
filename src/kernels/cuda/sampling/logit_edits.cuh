// Which edits a row of logits has, for kernels.
#pragma once

#include "kernels/sampling_args.h"

namespace quire::cuda {

__device__ inline bool has_penalties(const LogitEdits& edits) {
  return edits.repetition_penalty != 1 || edits.presence_penalty != 0 ||
         edits.frequency_penalty != 0;
}

__device__ inline bool has_edits(const LogitEdits& edits) {
  return edits.mask.size() + edits.allowed.size() + edits.biases.size() + edits.banned.size() > 0 ||
         has_penalties(edits);
}

}  // namespace quire::cuda
