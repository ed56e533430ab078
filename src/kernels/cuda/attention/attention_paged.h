// Attention over caches of bfloat16, FP8 and INT8 with tensor cores.
//
// What a row's bits depend on. Queries times their scale and log2(e) are rounded to bfloat16, so
// that weights are powers of two. Of each range of keys (kernels/attention_scratch.h) a row has its
// largest score, weights relative to that, rounded to bfloat16, and the sums of the weights and of
// the weighted values, which tensor cores add to float32 sums, 16 keys at a time in a fixed order
// (attention_paged_math.cuh). Keys that a row does not see have weights of exactly zero, whether
// they are computed or left out. Partial results are joined in the order of the ranges. Hence any
// split of rows, keys and ranges among blocks gives the same bits.
//
// Where the cache has FP8, queries and weights are rounded to float16 instead. Where it has INT8,
// scores are multiplied by the scales of keys before anything else, and weights by those of values
// before they are rounded.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_paged_split.h"

namespace quire::cuda {

// Whether the functions below compute such a layer; depends on shapes and types alone.
bool paged_attention_applies(const AttentionArgs& args);

std::uint64_t paged_attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

SplitShape paged_split_shape(const AttentionArgs& args, int multiprocessors);

void paged_attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
                     const StagedSplit& split);

}  // namespace quire::cuda
