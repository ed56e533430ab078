// One step's plan and its result: all that the scheduler and an executor share. Plans are diffs: an
// executor keeps each request's tokens and block table, and is told only what changed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"

namespace quire {

// A request that the executor does not know: new, or resumed after a preemption.
struct NewRequestData {
  RequestId request_id = 0;
  std::vector<TokenId> token_ids;  // prompt, then the output so far (after a preemption)
  std::int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams> sampling_params;
};

// One request's share of a step: its known tokens [num_computed_tokens, num_computed_tokens +
// num_scheduled_tokens) are computed, and their keys and values written to its blocks.
struct ScheduledRequest {
  RequestId request_id = 0;
  std::int32_t num_computed_tokens = 0;   // before this step
  std::int32_t num_scheduled_tokens = 0;  // > 0
  // True when the last scheduled token is the last known one: the executor then samples the next
  // token and appends it to its copy of the request's tokens.
  bool samples = false;
  std::vector<BlockId> new_block_ids;  // appended to the request's block table
};

// Copy-on-write: the whole block `source` is copied to `destination` before anything is computed.
struct BlockCopy {
  BlockId source = 0;
  BlockId destination = 0;
};

// A block of a request's table that was replaced by its private copy.
struct BlockReplacement {
  RequestId request_id = 0;
  std::int32_t index = 0;  // position in the block table
  BlockId block_id = 0;
};

struct SchedulerOutput {
  StepId step_id = 0;
  std::vector<RequestId> removed_request_ids;  // forget these first: finished, aborted, preempted
  std::vector<NewRequestData> new_requests;
  std::vector<BlockReplacement> replaced_blocks;
  std::vector<BlockCopy> block_copies;
  std::vector<ScheduledRequest> scheduled;
  std::int64_t total_num_scheduled_tokens = 0;  // sum over `scheduled`

  bool empty() const { return scheduled.empty() && removed_request_ids.empty(); }
};

struct SampledToken {
  RequestId request_id = 0;
  TokenId token_id = 0;
  float logprob = 0.0F;  // natural log, of the model's own distribution (before temperature)
};

struct ModelRunnerOutput {
  StepId step_id = 0;
  std::vector<SampledToken> sampled;  // one for each scheduled request with `samples`, in order
};

}  // namespace quire
