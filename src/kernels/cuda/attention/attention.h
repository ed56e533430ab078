// Paged attention and the way of keys and values into the cache, as OpStream (kernels/device.h)
// defines them, in the layout of kernels/kv_layout.h.
//
// Keys are seen in ranges at fixed positions (kRangeKeys of kernels/attention_scratch.h). A range
// gives each query of each head a partial result: the largest score, the sum of the weights
// relative to it, and the weighted sum of values; a range's keys are taken in tiles of fixed size
// from the range's start. Partial results are joined in the order of the ranges, whoever computed
// them, and a sink is added at last. Which kernel computes a layer depends on its shapes and types
// alone, never on the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "kernels/attention_plan.h"
#include "kernels/cuda/launch.h"
#include "kernels/row_args.h"
#include "kernels/sizing.h"

namespace quire::cuda {

struct SplitShape;
struct StagedSplit;

// The ragged batch of a step in the device's memory.
struct AttentionInputs {
  std::int32_t num_seqs = 0;
  std::int32_t num_tokens = 0;                    // query rows
  std::int32_t max_queries = 0;                   // of a sequence
  std::int64_t table_stride = 0;                  // block ids from a sequence's to the next's
  const std::int32_t* query_start_loc = nullptr;  // [num_seqs + 1]
  const std::int32_t* seq_lens = nullptr;         // [num_seqs]
  const BlockId* block_tables = nullptr;          // [num_seqs][table_stride], of this layer
  // The same two as above, in the host's memory.
  const std::int32_t* host_query_start_loc = nullptr;
  const std::int32_t* host_seq_lens = nullptr;
};

// Scratch of attention() for steps of at most limits.max_rows rows.
std::uint64_t attention_workspace_bytes(const StreamLimits& limits, int multiprocessors);

void rope_and_cache(const Launch& launch, const RopeAndCacheArgs& args);

// How the layer's kernels split a step by a plan; nothing: they do not.
std::optional<SplitShape> split_shape(const AttentionArgs& args, int multiprocessors);

// Whether what is launched follows from `inputs`, but for its lengths on the host, and from the
// form of the plan of this shape.
bool attention_repeats(const AttentionInputs& inputs, const AttentionArgs& args,
                       const std::optional<SplitShape>& shape);

// `args.block_tables` is not read: `inputs` has the layer's. `split`: the step's plan of the
// layer's shape.
void attention(const Launch& launch, const AttentionInputs& inputs, const AttentionArgs& args,
               const StagedSplit& split);

}  // namespace quire::cuda
