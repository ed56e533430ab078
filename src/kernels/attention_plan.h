// One step's attention work, split once and used by every layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/shared_prefixes.h"

namespace quire {

// The ragged batch of a step. Borrows its arrays.
struct AttentionBatch {
  std::int32_t num_seqs = 0;
  const std::int32_t* query_start_loc = nullptr;  // [num_seqs + 1]: first query row of a sequence
  const std::int32_t* seq_lens = nullptr;         // [num_seqs]: keys, those of this step included
  const BlockId* const* block_tables = nullptr;   // [num_seqs]: block ids of each sequence
  std::int32_t block_size = 0;  // in tokens; 0: no blocks are looked for that sequences share
  // Tables that layers have in place of these (AttentionArgs::block_tables).
  std::span<const BlockId* const* const> layer_tables = {};
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
  // Keys of the sequence that a SharedWork covers, and where its result lies; 0: none, negative.
  std::int32_t shared_keys = 0;
  std::int64_t state = -1;
};

// A unit of work on a prefix that some sequences share: the one query of each of members
// [member_begin, member_end) of the plan, for the query heads of one KV head, over the keys [0,
// key_end). Gives each member and KV head a state: the partial results of these ranges, joined.
struct SharedWork {
  std::int32_t kv_head = 0;
  std::int32_t member_begin = 0;
  std::int32_t member_end = 0;
  std::int32_t key_end = 0;
};

// How the heads of a model share keys and values.
struct AttentionHeads {
  std::int32_t num_kv_heads = 1;
  std::int32_t heads_per_kv_head = 1;

  bool operator==(const AttentionHeads&) const = default;
};

// Reused from step to step: build() allocates nothing once its vectors have grown to `reserve`.
class AttentionPlan {
 public:
  // The fewest work items for each thread, in a step with enough to do.
  static constexpr std::int32_t kWorkPerThread = 4;

  void reserve(std::int32_t max_tokens, const AttentionHeads& heads, int num_threads);
  // Splits the batch into work items, the longest first; a query with so many keys that the threads
  // could not share the step evenly, into several. Borrows the batch's arrays until the step is
  // over. How a step is split changes no bit of its results.
  void build(const AttentionBatch& batch, const AttentionHeads& heads, int num_threads);

  const AttentionBatch& batch() const { return batch_; }
  const std::vector<AttentionWork>& work() const { return work_; }
  // Queries of work() in pieces, whole: their partial results are joined when all work is done.
  const std::vector<AttentionWork>& splits() const { return splits_; }
  // Ranges of partial results that the step needs.
  std::int64_t num_partials() const { return num_partials_; }

  // Work that comes before work(), and that layers with windows or chunks leave out: there work()
  // covers what sequences share as well.
  const std::vector<SharedWork>& shared() const { return shared_; }
  // Of each member of a group that shares a prefix: its sequence, the row and the position of its
  // query.
  const std::vector<std::int32_t>& members() const { return prefixes_.members(); }
  const std::vector<std::int32_t>& member_queries() const { return member_queries_; }
  const std::vector<std::int32_t>& member_positions() const { return member_positions_; }
  // Member m's state for KV head h is m * num_kv_heads + h.
  std::int64_t num_states() const { return num_states_; }
  // Keys that need not be read again because sequences share them.
  std::int64_t keys_saved() const { return keys_saved_; }

 private:
  void split(const AttentionWork& whole, std::int32_t keys_per_piece);
  void share_prefixes(const AttentionHeads& heads, int num_threads);

  AttentionBatch batch_;
  std::vector<AttentionWork> whole_;
  std::vector<AttentionWork> work_;
  std::vector<AttentionWork> splits_;
  std::int64_t num_partials_ = 0;
  SharedPrefixes prefixes_;
  std::vector<SharedWork> shared_;
  std::vector<std::int32_t> member_queries_;
  std::vector<std::int32_t> member_positions_;
  std::vector<AttentionWork> of_sequence_;  // shared_keys and state of each, for KV head 0
  std::int64_t num_states_ = 0;
  std::int64_t keys_saved_ = 0;
};

}  // namespace quire
