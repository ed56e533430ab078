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
// query heads that share one KV head, over the keys at positions [key_begin, key_end), which begins
// at a whole range (attention_scratch.h).
struct AttentionWork {
  std::int32_t sequence = 0;
  std::int32_t kv_head = 0;
  std::int32_t query_begin = 0;
  std::int32_t query_end = 0;
  std::int32_t key_begin = 0;
  std::int32_t key_end = 0;
  // Where the partial results of the sequence's first range lie, counted in ranges; negative: the
  // work is one query tile's whole, and needs no place for them.
  std::int64_t partials = -1;
};

// How the heads of a model share keys and values.
struct AttentionHeads {
  std::int32_t num_kv_heads = 1;
  std::int32_t heads_per_kv_head = 1;
};

// Reused from step to step: build() allocates nothing once its vectors have grown to `reserve`.
class AttentionPlan {
 public:
  // Work items for each thread that a step has at least, where there is so much to do.
  static constexpr std::int32_t kWorkPerThread = 4;

  void reserve(std::int32_t max_tokens, const AttentionHeads& heads, int num_threads);
  // Splits the batch into work items, the longest first; a query with so many keys that the threads
  // could not share the step evenly, into several. Borrows the batch's arrays until the step is
  // over. How a step is split changes no bit of its results.
  void build(const AttentionBatch& batch, const AttentionHeads& heads, int num_threads);

  const AttentionBatch& batch() const { return batch_; }
  const std::vector<AttentionWork>& work() const { return work_; }
  // What work() has in pieces, whole: their partial results are joined when all work is done.
  const std::vector<AttentionWork>& splits() const { return splits_; }
  // Ranges of partial results that the step needs.
  std::int64_t num_partials() const { return num_partials_; }

 private:
  void split(const AttentionWork& whole, std::int32_t keys_per_piece);

  AttentionBatch batch_;
  std::vector<AttentionWork> whole_;
  std::vector<AttentionWork> work_;
  std::vector<AttentionWork> splits_;
  std::int64_t num_partials_ = 0;
};

}  // namespace quire
