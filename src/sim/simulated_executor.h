// An executor without a model. It takes the same plans as a real one, keeps its copy of every
// request's tokens and block table from the same diffs, and distrusts all of them: its KV memory
// holds, for each slot, a hash of the tokens up to that position, so that a block that was freed
// too early, given to two requests, copied too late or not computed at all is found at the next
// read.
//
// A sampled token is a function of the tokens before it alone. A request therefore has one right
// output, whatever else ran, however its prompt was cut and however often it was preempted.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/step.h"
#include "exec/executor.h"
#include "sim/virtual_clock.h"

namespace quire {

// Hash of a sequence of tokens, one token at a time; starts as 0.
std::uint64_t extend_history(std::uint64_t history, TokenId token_id);
// The token that follows a sequence, in [0, vocab_size).
TokenId simulated_token(std::uint64_t history, std::int32_t vocab_size);

struct SimulatedExecutorConfig {
  std::int32_t block_size = 16;
  std::int32_t num_blocks = 0;
  std::int32_t vocab_size = 0;
  Duration step_time{};   // of every step
  Duration token_time{};  // of every scheduled token, on top
};

class SimulatedExecutor : public Executor {
 public:
  // The clock, which the executor advances by the time of each step, must outlive it.
  SimulatedExecutor(const SimulatedExecutorConfig& config, VirtualClock& clock);

  // kInternal naming the request and the rule for a plan that a real executor could not carry out.
  Status execute(const SchedulerOutput& plan, ModelRunnerOutput& result) override;

  std::size_t num_requests() const { return requests_.size(); }
  // The executor's copy of a block table; nullptr if it does not know the request.
  const std::vector<BlockId>* find_block_ids(RequestId request_id) const;

 private:
  struct RequestCopy {
    std::vector<std::uint64_t> history;  // hash up to and including each known token
    std::vector<BlockId> block_ids;
    std::int32_t num_computed_tokens = 0;
    bool computed_before = false;  // false: the first step may find tokens computed by others
    StepId last_step = 0;
  };

  Status forget(const SchedulerOutput& plan);
  Status learn(const NewRequestData& data);
  Status copy_blocks(const SchedulerOutput& plan);
  Status check_scheduled(const ScheduledRequest& scheduled, const RequestCopy& request) const;
  Status compute(const ScheduledRequest& scheduled, RequestCopy& request);
  bool valid(BlockId block_id) const { return block_id >= 0 && block_id < config_.num_blocks; }
  std::uint64_t& slot(const RequestCopy& request, std::size_t position);

  SimulatedExecutorConfig config_;
  VirtualClock& clock_;
  std::unordered_map<RequestId, RequestCopy> requests_;
  std::vector<std::uint64_t> slots_;       // num_blocks x block_size
  std::vector<std::int32_t> num_holders_;  // of each block
  StepId last_step_ = 0;
};

}  // namespace quire
