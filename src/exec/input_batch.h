// The executor's copy of every running request, kept up to date by the scheduler's diffs, and the
// flat ragged arrays of the current step. Everything is reserved once: preparing a step allocates
// nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/draft_tree.h"
#include "base/ids.h"
#include "base/recycled_map.h"
#include "base/status.h"
#include "core/step.h"
#include "exec/executor.h"
#include "exec/logit_transforms.h"
#include "kernels/attention_plan.h"
#include "kernels/state_runs.h"

namespace quire {

struct InputBatchLimits {
  std::int32_t block_size = 0;
  std::int32_t pages_per_block = 1;  // entries that a block has in a request's table
  std::int32_t state_pages = 0;      // of these, the last ones, which contain states
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t max_num_seqs = 0;
  std::int64_t max_model_len = 0;
  std::int32_t max_draft_paths = 1;  // of a request in a step

  // Paths of a step besides the first of each request.
  std::int64_t max_branches() const {
    return std::min(max_num_seqs * (max_draft_paths - 1), max_num_batched_tokens);
  }
};

class InputBatch {
 public:
  explicit InputBatch(const InputBatchLimits& limits);
  static std::uint64_t bytes(const InputBatchLimits& limits);
  void prefault();  // touches what is reserved; before the first step

  // Applies the diffs of `step`, which must stay as it is until accept(), and lays out its tokens.
  // kInternal if the plan contradicts what is known here (an unknown request, a token without a
  // block): a bug, never a user's error.
  Status prepare(const SchedulerOutput& step);

  // The masks of sample_rows(). kInternal for one of no row.
  Status apply_masks(std::span<const TokenMask> masks);
  // `sampled` has a token for each of sample_rows(). Keeps those that follow from one another,
  // which are a request's tokens up to the first that was not guessed there, and makes them known,
  // so that the next step can schedule them.
  void accept(std::vector<SampledToken>& sampled);
  // After accept(): the rows whose tokens are known, by request and position.
  std::span<const std::int64_t> known_rows() const { return known_rows_; }

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(token_ids_.size()); }
  // Of each token of the step.
  std::span<const TokenId> token_ids() const { return token_ids_; }
  std::span<const std::int32_t> positions() const { return positions_; }
  // Of the layers whose blocks are the page `page` of each block.
  std::span<const std::int64_t> slot_mapping(std::size_t page = 0) const {
    return pages_[page].slot_mapping;
  }
  const BlockId* const* block_tables(std::size_t page = 0) const {
    return pages_[page].block_tables.data();
  }
  bool keeps_states(std::size_t page) const { return pages_[page].state; }
  // Of a page with states.
  std::span<const StateRun> state_runs(std::size_t page) const { return pages_[page].state_runs; }
  // Tokens whose keys and values another path of drafts needs in a block of its own, too: their
  // rows, and where.
  std::span<const std::int64_t> repeated_rows() const { return repeated_rows_; }
  std::span<const std::int64_t> repeated_slots(std::size_t page = 0) const {
    return pages_[page].repeated_slots;
  }
  AttentionBatch attention_batch() const;  // with the tables of the first page

  // A row of the step whose logits are sampled from.
  struct SampleRow {
    RequestId request_id = 0;
    std::int64_t row = 0;       // in the step
    std::int32_t draft = 0;     // behind which of the request's drafts, from 1; 0: before all
    DraftTreeView drafts = {};  // of a request's first row: those of the next rows
    SampleContext context;
    std::uint64_t seed = 0;  // of its random stream
  };
  const std::vector<SampleRow>& sample_rows() const { return sample_rows_; }

  // A row of the step whose final hidden state takes part in what its prompt is pooled to.
  struct PoolRow {
    RequestId request_id = 0;
    std::int64_t row = 0;
  };
  const std::vector<PoolRow>& pool_rows() const { return pool_rows_; }

  // A row whose logits give the log probability of the prompt token after it, which was asked for.
  struct PromptRow {
    RequestId request_id = 0;
    std::int64_t row = 0;
    std::int32_t position = 0;  // of the token after it
    TokenId token_id = 0;
    std::int32_t num_top_logprobs = 0;
  };
  const std::vector<PromptRow>& prompt_rows() const { return prompt_rows_; }

 private:
  struct Sequence {
    std::vector<TokenId> token_ids;
    // [pages_per_block]: what each layer reads as its own table.
    std::vector<std::vector<BlockId>> block_ids;
  };
  struct RequestState : Sequence {
    std::int32_t num_prompt_tokens = 0;
    std::int32_t sample_index = 0;
    Pooling pooling = Pooling::kNone;
    std::shared_ptr<const SamplingParams> params;
  };
  // What the step has once for each page of a block. One with states has runs of rows in
  // place of a slot for each.
  struct PageArrays {
    bool state = false;
    std::vector<StateRun> state_runs;
    std::vector<std::int64_t> slot_mapping;
    std::vector<std::int64_t> repeated_slots;
    std::vector<const BlockId*> block_tables;
  };

  Status apply_diffs(const SchedulerOutput& step);
  Status replace_block(const BlockReplacement& replacement);
  static void append_blocks(std::span<const BlockId> entries, RequestState& state);
  std::int64_t slot_of(const Sequence& sequence, std::int32_t position, std::size_t page) const;
  void lay_out_tokens(std::int32_t begin, std::int32_t end, const Sequence& sequence);
  Status lay_out(const SchedulerOutput& step, const ScheduledRequest& scheduled,
                 RequestState& state);
  Status lay_out_branches(const SchedulerOutput& step, const ScheduledRequest& scheduled,
                          const RequestState& state);
  Status take_branch_blocks(std::int32_t begin, std::int32_t end, std::span<const BlockId>& entries,
                            Sequence& branch) const;
  void repeat_tokens(const ScheduledRequest& scheduled, DraftTreeView drafts, const DraftPath& path,
                     const Sequence& branch);
  void add_sample_row(const ScheduledRequest& scheduled, std::int32_t draft,
                      std::span<const TokenId> token_ids, const RequestState& state);
  void add_prompt_rows(const ScheduledRequest& scheduled, const RequestState& state);
  void know_rows(std::int64_t begin, std::int64_t end);
  void add_pool_rows(const ScheduledRequest& scheduled, const RequestState& state);

  std::int32_t block_size_;
  std::int64_t max_num_seqs_;
  RecycledMap<RequestState> requests_;

  std::vector<TokenId> token_ids_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> query_start_loc_;
  std::vector<std::int32_t> seq_lens_;
  std::vector<PageArrays> pages_;   // [pages_per_block]
  std::vector<Sequence> branches_;  // of the step so many: paths of drafts but the first ones
  std::size_t num_branches_ = 0;
  std::vector<DraftPath> paths_;  // of the request that is laid out
  std::vector<std::int64_t> repeated_rows_;
  std::vector<SampleRow> sample_rows_;
  std::vector<PoolRow> pool_rows_;
  std::vector<PromptRow> prompt_rows_;
  std::vector<std::int64_t> known_rows_;
};

}  // namespace quire
