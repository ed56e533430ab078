// Attention in float32 for every layout, type of cache and head size.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.h"

namespace quire::cuda {

std::uint64_t generic_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

void generic_attention(const Launch& launch, const AttentionInputs& inputs,
                       const AttentionArgs& args);

}  // namespace quire::cuda
