// Attention over latents of bfloat16 (DeepSeek-AI 2024, DeepSeek-V2) with tensor cores: a token's
// only key of 576 numbers, whose last 512 are its value, for all heads.
//
// What a row's bits depend on. Queries times their scale and log2(e) are rounded to bfloat16. Of
// each range of keys (kernels/attention_scratch.h) 64 keys at a time have their scores summed by
// tensor cores; weights relative to the largest score so far are rounded to bfloat16, and tensor
// cores add the weighted values to float32 sums, 16 keys at a time, which are scaled where the
// largest score grows. Keys that a row does not see have weights of exactly zero. Partial results
// are joined in the order of the ranges, as in attention_paged.h. Rows do not depend on how many a
// block has, so that any split of rows and ranges among blocks gives the same bits. A row that sees
// a key that is not finite is NaN, and no other row is.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_paged_split.h"

namespace quire::cuda {

// Whether latent_attention() computes such a layer; depends on shapes and types alone.
bool latent_attention_applies(const AttentionArgs& args);

std::uint64_t latent_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

SplitShape latent_split_shape(int multiprocessors);

void latent_attention(const Launch& launch, const AttentionInputs& inputs,
                      const AttentionArgs& args, const StagedSplit& split);

}  // namespace quire::cuda
