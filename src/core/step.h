// One step's plan and its result: all that the scheduler and an executor share. Plans are diffs: an
// executor keeps each request's tokens and block table, and is told only the changes.
//
// Both are filled into objects that the caller keeps from step to step, so that a step allocates
// nothing once their vectors have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/block_name.h"
#include "base/clock.h"
#include "base/draft_tree.h"
#include "base/ids.h"
#include "base/pooling.h"
#include "base/status.h"
#include "base/token_scores.h"
#include "core/sampling_params.h"

namespace quire {

// The purpose of a request's rows in a step.
enum class RowUse : std::uint8_t {
  kNothing,  // only their keys and values: more of its known tokens will follow
  // The logits of the last row and of the drafts' rows before it: the executor samples, and
  // appends the sampled tokens to its copy of the request's tokens.
  kTokens,
  kState,  // the prompt ends there and is pooled, by NewRequestData::pooling
};
constexpr std::string_view row_use_name(RowUse use) {
  switch (use) {
    case RowUse::kNothing:
      return "nothing";
    case RowUse::kTokens:
      return "tokens";
    case RowUse::kState:
      return "state";
  }
  return "unknown";
}

// A request that the executor does not know: new, or resumed after a preemption. In a beam search
// each beam is one, and new after each of its tokens, because beams change places and tokens.
struct NewRequestData {
  RequestId request_id = 0;
  // The prompt, then the output so far (after a preemption, and for a beam), in
  // SchedulerOutput::new_token_ids.
  std::int32_t first_token = 0;
  std::int32_t num_tokens = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t sample_index = 0;  // i of n: its random numbers use the parameters' seed plus i
  // From here on, the executor keeps the states of its rows that this kind of pooling uses.
  Pooling pooling = Pooling::kNone;
  std::shared_ptr<const SamplingParams> sampling_params;
  // Its block table so far, in entries of SchedulerOutput::new_block_ids: the blocks of its first
  // ScheduledRequest::num_computed_tokens tokens, which are already computed (prefix cache, fork);
  // kNullBlock if no later token reads them. Blocks may be shared.
  std::int32_t first_block = 0;
  std::int32_t num_blocks = 0;
};

// One request's share of a step: its tokens [num_computed_tokens, end()) are computed, and their
// keys and values written to its blocks, those of drafts on other paths than the first to theirs.
// Its known tokens include those of earlier steps that may still be in flight: the scheduler has a
// placeholder for each, and the executor has the token when this step's turn comes.
struct ScheduledRequest {
  RequestId request_id = 0;
  std::int32_t num_computed_tokens = 0;   // before this step
  std::int32_t num_scheduled_tokens = 0;  // > 0, all drafts included
  RowUse use = RowUse::kNothing;  // kNothing unless the last scheduled token is the last known one
  // Guesses at the tokens after the last known one, which are the last rows: a tree in order of its
  // paths, SchedulerOutput::drafts_of(). The executor samples at each position, and continues as
  // long as the sampled token is a guessed one: so the tokens are those without drafts.
  std::int32_t first_draft = 0;
  std::int32_t num_drafts = 0;
  std::int32_t num_branched = 0;  // of these, on other paths than the first
  // Entries appended to the request's table, in SchedulerOutput::new_block_ids.
  std::int32_t first_new_block = 0;
  std::int32_t num_new_blocks = 0;
  // Behind these, for each path of drafts but the first, one after the other: the entries that it
  // has in place of those of the path that it leaves, from the block of its first own token to that
  // of its last. What they hold of tokens before it is the parent path's: where that is computed
  // already it is among the block copies, and the executor copies what this step computes.
  std::int32_t num_branch_blocks = 0;

  // Behind the request's last scheduled position.
  std::int32_t end() const { return num_computed_tokens + num_scheduled_tokens - num_branched; }
  // Behind the last known token, which drafts follow.
  std::int32_t end_without_drafts() const { return end() - (num_drafts - num_branched); }

  bool operator==(const ScheduledRequest&) const = default;
};

// Copy-on-write: the whole page `source` is copied to `destination` before the step computes.
struct BlockCopy {
  BlockId source = 0;
  BlockId destination = 0;

  bool operator==(const BlockCopy&) const = default;
};

// An entry of a request's table that was replaced by its private copy.
struct BlockReplacement {
  RequestId request_id = 0;
  std::int32_t index = 0;  // position in the block table
  BlockId block_id = 0;

  bool operator==(const BlockReplacement&) const = default;
};

// The last entries of a request's table were removed, together with their tokens.
struct BlockTruncation {
  RequestId request_id = 0;
  std::int32_t num_blocks = 0;  // entries that are left

  bool operator==(const BlockTruncation&) const = default;
};

// A page whose content leaves the prefix cache: where blocks may go to a lower tier, it is copied
// there before the step writes to the page.
struct BlockStore {
  BlockId block_id = 0;
  BlockName name{};

  bool operator==(const BlockStore&) const = default;
};

// A page that gets what the lower tier has of this name. A fetch is one or more of these in a row,
// all in one plan; it begins with the step and may end long after it (TierReport). Until then
// nobody else reads or writes the page.
struct BlockFetch {
  FetchId fetch_id = 0;
  BlockId block_id = 0;
  BlockName name{};

  bool operator==(const BlockFetch&) const = default;
};

// What an executor tells of the lower tier, between steps. A block is told by the first word of its
// name, which is enough to say where to look.
struct TierReport {
  struct Fetched {
    FetchId fetch_id = 0;
    std::int32_t num_blocks = 0;  // the first so many are there; less than all: one was lost
    Duration time{};              // from the step that began it
    bool operator==(const Fetched&) const = default;
  };
  std::vector<std::uint64_t> added;    // before anything was stored: left by another run
  std::vector<std::uint64_t> removed;  // or not stored in the first place
  std::vector<Fetched> fetched;        // fetches that have ended
  bool stores_end = false;             // nothing will be stored any more
  // What is there is of no use any more: the model is another one. Fetches give nothing.
  bool closed = false;

  bool empty() const {
    return added.empty() && removed.empty() && fetched.empty() && !stores_end && !closed;
  }
  bool operator==(const TierReport&) const = default;
};

// The lower tier as its files are; all zero where there is none.
struct TierStats {
  std::int64_t blocks_written = 0;
  std::int64_t blocks_read = 0;
  std::int64_t bytes_written = 0;
  std::int64_t bytes_read = 0;
  std::int64_t blocks_dropped = 0;  // not written: no buffer was free, or writing had failed
  std::int64_t blocks_damaged = 0;  // and whatever else was found that nobody had written
  std::int64_t failed = 0;          // 1: writing has failed, and nothing more is written
  bool operator==(const TierStats&) const = default;
};

// An executor applies the parts in the order in which they are listed here. Block tables are those
// of core/block_table.h. Released pages behind a window are not reported: nobody reads them, and
// other requests may write them from the next step on.
struct SchedulerOutput {
  StepId step_id = 0;
  std::vector<BlockTruncation> truncated_tables;
  // Entries that are those of the path of drafts that turned out right, of the request's last step.
  std::vector<BlockReplacement> adopted_blocks;
  std::vector<RequestId> removed_request_ids;  // forget these: finished, aborted, preempted
  std::vector<NewRequestData> new_requests;
  std::vector<BlockReplacement> replaced_blocks;
  std::vector<BlockStore> block_stores;
  std::vector<BlockFetch> block_fetches;
  std::vector<BlockCopy> block_copies;
  std::vector<ScheduledRequest> scheduled;
  // The parts that the requests above refer to.
  std::vector<TokenId> new_token_ids;
  std::vector<TokenId> draft_token_ids;
  std::vector<std::int32_t> draft_parents;  // of each draft, among its request's
  std::vector<BlockId> new_block_ids;
  std::int64_t total_num_scheduled_tokens = 0;  // sum over `scheduled`

  bool empty() const {
    return scheduled.empty() && removed_request_ids.empty() && truncated_tables.empty() &&
           adopted_blocks.empty() && block_fetches.empty();
  }
  std::span<const TokenId> tokens_of(const NewRequestData& request) const {
    return std::span(new_token_ids)
        .subspan(static_cast<std::size_t>(request.first_token),
                 static_cast<std::size_t>(request.num_tokens));
  }
  DraftTreeView drafts_of(const ScheduledRequest& request) const {
    const auto first = static_cast<std::size_t>(request.first_draft);
    const auto count = static_cast<std::size_t>(request.num_drafts);
    return {std::span(draft_token_ids).subspan(first, count),
            std::span(draft_parents).subspan(first, count)};
  }
  std::span<const BlockId> blocks_of(const NewRequestData& request) const {
    return std::span(new_block_ids)
        .subspan(static_cast<std::size_t>(request.first_block),
                 static_cast<std::size_t>(request.num_blocks));
  }
  std::span<const BlockId> new_blocks_of(const ScheduledRequest& request) const {
    return std::span(new_block_ids)
        .subspan(static_cast<std::size_t>(request.first_new_block),
                 static_cast<std::size_t>(request.num_new_blocks));
  }
  std::span<const BlockId> branch_blocks_of(const ScheduledRequest& request) const {
    return std::span(new_block_ids)
        .subspan(static_cast<std::size_t>(request.first_new_block + request.num_new_blocks),
                 static_cast<std::size_t>(request.num_branch_blocks));
  }
  // Empty again, capacity kept.
  void clear() {
    step_id = 0;
    truncated_tables.clear();
    adopted_blocks.clear();
    removed_request_ids.clear();
    new_requests.clear();
    replaced_blocks.clear();
    block_stores.clear();
    block_fetches.clear();
    block_copies.clear();
    scheduled.clear();
    new_token_ids.clear();
    draft_token_ids.clear();
    draft_parents.clear();
    new_block_ids.clear();
    total_num_scheduled_tokens = 0;
  }
};

struct SampledToken {
  RequestId request_id = 0;
  TokenId token_id = 0;
  float logprob = 0.0F;  // 0, like the rank, without SamplingParams::logprobs
  std::int32_t rank = 0;
  // The most probable tokens at its position, best first, in ModelRunnerOutput::top_logprobs:
  // SamplingParams::logprobs of them, and for a beam's row at least its num_beam_candidates().
  std::int32_t first_top_logprob = 0;
  std::int32_t num_top_logprobs = 0;
  bool is_beam = false;  // the search continues with these, and the token is unused
};

// The log probability of a prompt token, given those before it.
struct PromptToken {
  RequestId request_id = 0;
  std::int32_t position = 0;  // in the prompt, >= 1: the first token has none
  TokenLogprob token;
  std::int32_t first_top_logprob =
      0;  // as in SampledToken; SamplingParams::prompt_logprobs of them
  std::int32_t num_top_logprobs = 0;
};

// The pooled final hidden states of a prompt's tokens: the result of a scheduled request with
// RowUse::kState.
struct PooledState {
  RequestId request_id = 0;
  std::size_t first = 0;  // in ModelRunnerOutput::hidden_states: [first, first + size)
  std::size_t size = 0;   // the model's hidden size
};

// A request whose token could not be chosen; its token in `sampled` must be ignored.
struct FailedRow {
  RequestId request_id = 0;
  Status reason;
};

struct ModelRunnerOutput {
  StepId step_id = 0;
  // For each scheduled request of RowUse::kTokens, in order: one token, and one more for each right
  // draft, in the order of their positions.
  std::vector<SampledToken> sampled;
  // For requests that ask for prompt_logprobs, by request and position.
  std::vector<PromptToken> prompt_tokens;
  std::vector<TokenLogprob> top_logprobs;
  std::vector<FailedRow> failed;
  std::vector<PooledState> pooled;  // one for each scheduled request of RowUse::kState, in order
  std::vector<float> hidden_states;
  // Where an executor was asked for them: the model's hidden state, [hidden size] numbers, of each
  // row whose token is the request's: of all rows but those of wrong drafts, in order of requests
  // and positions.
  std::vector<float> states;

  void clear() {
    step_id = 0;
    sampled.clear();
    prompt_tokens.clear();
    top_logprobs.clear();
    failed.clear();
    pooled.clear();
    hidden_states.clear();
    states.clear();
  }
};

}  // namespace quire
