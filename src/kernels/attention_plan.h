// One step's attention work, split once and used by every layer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// The ragged batch of a step. Borrows its arrays.
struct AttentionBatch {
  std::int32_t num_seqs = 0;
  const std::int32_t* query_start_loc = nullptr;  // [num_seqs + 1]: first query row of a sequence
  const std::int32_t* seq_lens = nullptr;         // [num_seqs]: keys, those of this step included
  const BlockId* const* block_tables = nullptr;   // [num_seqs]: block ids of each sequence
};

// A unit of work: queries [query_begin, query_end) (rows of the step) of one sequence, for the
// query heads that share one KV head.
struct AttentionWork {
  std::int32_t sequence = 0;
  std::int32_t kv_head = 0;
  std::int32_t query_begin = 0;
  std::int32_t query_end = 0;
};

// Most query rows of a work item: enough to amortise the conversion of keys and values, few enough
// that two threads share a prompt evenly.
inline constexpr std::int32_t kMaxQueriesPerWork = 32;

// Reused from step to step: build() allocates nothing once its vectors have grown to `reserve`.
class AttentionPlan {
 public:
  void reserve(std::int32_t max_tokens, std::int32_t num_kv_heads);
  // Splits the batch into work items, the longest first. Borrows the batch's arrays until the step
  // is over.
  void build(const AttentionBatch& batch, std::int32_t num_kv_heads);

  const AttentionBatch& batch() const { return batch_; }
  const std::vector<AttentionWork>& work() const { return work_; }

 private:
  AttentionBatch batch_;
  std::vector<AttentionWork> work_;
};

}  // namespace quire
