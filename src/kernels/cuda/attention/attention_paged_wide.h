// Attention with tensor cores where sequences have many rows, as FlashAttention-3 does it (Shah et
// al. 2024): warpgroups with 64 rows each take turns with the tensor cores while the others compute
// weights. Before, another kernel turns the keys and values of the sequences into the order in
// which tensor cores want them, which costs less the more rows there are.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.h"

namespace quire::cuda {

// Whether there is a kernel for such a layer; where there is none, split_attention() has one.
bool wide_attention_applies(const AttentionArgs& args);

std::uint64_t wide_attention_workspace_bytes(const StreamLimits& limits);

// Rows of the sequences that have more than `fewest_rows`.
void wide_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                    std::int32_t fewest_rows);

}  // namespace quire::cuda
