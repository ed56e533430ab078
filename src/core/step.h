// One step's plan and its result: all that the scheduler and an executor share. Plans are diffs: an
// executor keeps each request's tokens and block table, and is told only what changed.
//
// Both are filled into objects that the caller keeps from step to step, so that once their vectors
// have grown a step allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/pooling.h"
#include "base/status.h"
#include "base/token_scores.h"
#include "core/sampling_params.h"

namespace quire {

// What a step computes a request's rows for.
enum class RowUse : std::uint8_t {
  kNothing,  // their keys and values alone: more of its known tokens are to come
  // The last row's logits, and those of the drafts' rows before it: the executor samples, and
  // appends what it sampled to its copy of the request's tokens.
  kTokens,
  kState,  // the prompt ends there and is pooled, as NewRequestData::pooling says
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

// A request that the executor does not know: new, or resumed after a preemption. Of a beam search
// each beam is one, and new after each of its tokens: beams change places and tokens.
struct NewRequestData {
  RequestId request_id = 0;
  // Prompt, then the output so far (after a preemption, and of a beam), in
  // SchedulerOutput::new_token_ids.
  std::int32_t first_token = 0;
  std::int32_t num_tokens = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t sample_index = 0;  // i of n: its random stream has the seed of the parameters plus i
  // Of its rows from here on the executor keeps what this takes part in, until it is pooled.
  Pooling pooling = Pooling::kNone;
  std::shared_ptr<const SamplingParams> sampling_params;
  // Its block table so far, in entries of SchedulerOutput::new_block_ids: what its first
  // ScheduledRequest::num_computed_tokens tokens, which are computed already (prefix cache, fork),
  // left for later ones; kNullBlock where none of these reads it. It may be shared.
  std::int32_t first_block = 0;
  std::int32_t num_blocks = 0;
};

// One request's share of a step: its tokens [num_computed_tokens, num_computed_tokens +
// num_scheduled_tokens) are computed, and their keys and values written to its blocks. What is
// known of a request are also the tokens that earlier steps, which may still be in flight, give it:
// the scheduler has a placeholder for each, the executor has the token when this step's turn comes.
struct ScheduledRequest {
  RequestId request_id = 0;
  std::int32_t num_computed_tokens = 0;   // before this step
  std::int32_t num_scheduled_tokens = 0;  // > 0, drafts included
  RowUse use = RowUse::kNothing;  // kNothing unless the last scheduled token is the last known one
  // Guesses at the tokens after the last known one, which are the last rows; in
  // SchedulerOutput::draft_token_ids. The executor samples at each position, and goes on for as
  // long as what it sampled is what was guessed: so the tokens are those without drafts.
  std::int32_t first_draft = 0;
  std::int32_t num_drafts = 0;
  // Entries appended to the request's table, in SchedulerOutput::new_block_ids.
  std::int32_t first_new_block = 0;
  std::int32_t num_new_blocks = 0;

  bool operator==(const ScheduledRequest&) const = default;
};

// Copy-on-write: the whole page `source` is copied to `destination` before anything is computed.
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

// The last entries of a request's table were given back: their tokens were taken back.
struct BlockTruncation {
  RequestId request_id = 0;
  std::int32_t num_blocks = 0;  // entries that are left

  bool operator==(const BlockTruncation&) const = default;
};

// An executor applies the parts in the order in which they stand here. Block tables are those of
// core/block_table.h. That pages behind a window are released is not told: nobody reads them, and
// others may write them from the next step on.
struct SchedulerOutput {
  StepId step_id = 0;
  std::vector<BlockTruncation> truncated_tables;
  std::vector<RequestId> removed_request_ids;  // forget these: finished, aborted, preempted
  std::vector<NewRequestData> new_requests;
  std::vector<BlockReplacement> replaced_blocks;
  std::vector<BlockCopy> block_copies;
  std::vector<ScheduledRequest> scheduled;
  // The parts that the requests above name.
  std::vector<TokenId> new_token_ids;
  std::vector<TokenId> draft_token_ids;
  std::vector<BlockId> new_block_ids;
  std::int64_t total_num_scheduled_tokens = 0;  // sum over `scheduled`

  bool empty() const {
    return scheduled.empty() && removed_request_ids.empty() && truncated_tables.empty();
  }
  std::span<const TokenId> tokens_of(const NewRequestData& request) const {
    return std::span(new_token_ids)
        .subspan(static_cast<std::size_t>(request.first_token),
                 static_cast<std::size_t>(request.num_tokens));
  }
  std::span<const TokenId> drafts_of(const ScheduledRequest& request) const {
    return std::span(draft_token_ids)
        .subspan(static_cast<std::size_t>(request.first_draft),
                 static_cast<std::size_t>(request.num_drafts));
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
  // Empty again, capacity kept.
  void clear() {
    step_id = 0;
    truncated_tables.clear();
    removed_request_ids.clear();
    new_requests.clear();
    replaced_blocks.clear();
    block_copies.clear();
    scheduled.clear();
    new_token_ids.clear();
    draft_token_ids.clear();
    new_block_ids.clear();
    total_num_scheduled_tokens = 0;
  }
};

struct SampledToken {
  RequestId request_id = 0;
  TokenId token_id = 0;
  float logprob = 0.0F;  // 0, and so is the rank, where SamplingParams::logprobs asks for none
  std::int32_t rank = 0;
  // The most probable tokens at its position, best first, in ModelRunnerOutput::top_logprobs;
  // SamplingParams::logprobs of them, and of a beam's row at least its num_beam_candidates().
  std::int32_t first_top_logprob = 0;
  std::int32_t num_top_logprobs = 0;
  bool is_beam = false;  // these are what its search goes on with, and the token is of no use
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

// What the final hidden states of a prompt's tokens are pooled to, which a scheduled request of
// RowUse::kState gives.
struct PooledState {
  RequestId request_id = 0;
  std::size_t first = 0;  // in ModelRunnerOutput::hidden_states: [first, first + size)
  std::size_t size = 0;   // the model's hidden size
};

// A request whose token could not be chosen; the one that `sampled` has must not count.
struct FailedRow {
  RequestId request_id = 0;
  Status reason;
};

struct ModelRunnerOutput {
  StepId step_id = 0;
  // Of each scheduled request of RowUse::kTokens, in order: one token, and one more for each draft
  // that was right, in the order of their positions.
  std::vector<SampledToken> sampled;
  // For requests that ask for prompt_logprobs, by request and position.
  std::vector<PromptToken> prompt_tokens;
  std::vector<TokenLogprob> top_logprobs;
  std::vector<FailedRow> failed;
  std::vector<PooledState> pooled;  // one for each scheduled request of RowUse::kState, in order
  std::vector<float> hidden_states;

  void clear() {
    step_id = 0;
    sampled.clear();
    prompt_tokens.clear();
    top_logprobs.clear();
    failed.clear();
    pooled.clear();
    hidden_states.clear();
  }
};

}  // namespace quire
