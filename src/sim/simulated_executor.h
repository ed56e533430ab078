// An executor without a model. It executes the same plans as a real one, keeps its copy of every
// request's tokens and block table from the same diffs, and distrusts all of them: its KV memory
// has, for each slot, a hash of the tokens up to that position, so that a block that was freed
// too early, given to two requests, copied too late or not computed at all is found at the next
// read. That is so in every KV group; behind a group's window nothing is read, and what lies there
// may become others'.
//
// A sampled token is a function of the tokens before it and of the request's random stream alone. A
// request therefore has one right output, whatever else ran, however its prompt was cut, whoever
// computed its first blocks and however often it was preempted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/kv_group.h"
#include "core/step.h"
#include "exec/executor.h"
#include "sim/simulated_tier.h"
#include "sim/virtual_clock.h"

namespace quire {

// Hash of a sequence of tokens, one token at a time; starts as 0.
std::uint64_t extend_history(std::uint64_t history, TokenId token_id);
// Where the randomness of one output comes from: its seed, or nowhere when it is greedy.
std::uint64_t simulated_stream(const SamplingParams& params, std::int32_t sample_index);
// The token that follows a sequence, in [0, vocab_size).
TokenId simulated_token(std::uint64_t history, std::uint64_t stream, std::int32_t vocab_size);
// The log probability of a token after a sequence: a number below 0, and no more than that.
float simulated_logprob(std::uint64_t history, TokenId token_id);

// One value of the hidden state after a sequence, in [-1, 1).
float simulated_state(std::uint64_t history, std::size_t index);

struct SimulatedExecutorConfig {
  std::int32_t block_size = 16;
  std::int32_t num_blocks = 0;  // pages
  std::int32_t vocab_size = 0;
  Duration step_time{};          // of every step
  Duration token_time{};         // of every scheduled token, on top
  std::int32_t hidden_size = 8;  // values of a hidden state
  std::size_t num_eos_token_ids = 0;
  std::vector<KvGroup> kv_groups = {KvGroup{}};
  SimulatedTierConfig tier = {};  // of one KV group that keeps all
};

class SimulatedExecutor : public Executor {
 public:
  // The clock, which the executor advances by the time of each step, must outlive it.
  SimulatedExecutor(const SimulatedExecutorConfig& config, VirtualClock& clock);

  // kInternal naming the request and the rule for a plan that a real executor could not carry out.
  // Tokens have log probabilities, also those of a prompt, but neither ranks nor alternatives,
  // which the rows of beams alone have. The hidden state of a prompt to pool is a function of its
  // tokens alone. A token that its mask does not allow becomes the next one in the vocabulary that
  // it does; kInternal for a mask of no row that samples.
  Status submit(const SchedulerOutput& plan) override;
  Status sample(std::span<const TokenMask> masks) override;
  Status collect(ModelRunnerOutput& result) override;
  bool take_tier_report(TierReport& report) override {
    return tier_.take_report(report, clock_.now());
  }
  // When the next fetch ends, if one is on its way.
  std::optional<Instant> next_fetch_end() const { return tier_.next_end(); }
  // All three, for a step that is alone in flight.
  Status execute(const SchedulerOutput& plan, ModelRunnerOutput& result);

  std::size_t num_requests() const { return requests_.size(); }
  // The executor's copy of a block table, all entries, without those behind a window that its next
  // token reads; nullptr if it does not know the request.
  const std::vector<BlockId>* find_block_ids(RequestId request_id) const;

 private:
  struct RequestCopy {
    std::vector<TokenId> token_ids;
    std::vector<std::uint64_t> history;  // hash up to and including each known token
    std::vector<BlockId> block_ids;
    std::vector<BlockId> branch_block_ids;  // of its drafts in its last step
    std::uint64_t stream = 0;
    bool prompt_logprobs = false;
    std::int64_t num_beam_candidates = 0;  // 0: no beam
    std::int32_t num_prompt_tokens = 0;
    std::int32_t num_computed_tokens = 0;
    Pooling pooling = Pooling::kNone;
    bool computed_before = false;  // false: the first step may find tokens computed by others
    StepId last_step = 0;
  };

  // A step that is not collected yet. It is computed when it is submitted, and takes its time when
  // it is collected.
  struct Step {
    ModelRunnerOutput result;
    Duration time{};
    // Of rows that sample more than one token, where they have masks: what was guessed.
    std::unordered_map<RequestId, DraftTree> drafts;
  };

  Status truncate(const SchedulerOutput& plan);
  Status adopt(const SchedulerOutput& plan);
  Status forget(const SchedulerOutput& plan);
  Status learn(const NewRequestData& data, const SchedulerOutput& plan);
  Status copy_blocks(const SchedulerOutput& plan);
  Status append_blocks(const SchedulerOutput& plan);
  // Gives the request these entries of the plan's new_block_ids.
  Status hold(RequestId request_id, RequestCopy& request, const SchedulerOutput& plan,
              std::int32_t first, std::int32_t count);
  Status hold_branches(const SchedulerOutput& plan, const ScheduledRequest& scheduled,
                       RequestCopy& request);
  Status check_scheduled(const ScheduledRequest& scheduled, const RequestCopy& request) const;
  Status compute(const ScheduledRequest& scheduled, RequestCopy& request);
  Status compute_branches(const SchedulerOutput& plan, const ScheduledRequest& scheduled,
                          const RequestCopy& request);
  static void append(TokenId token, RequestCopy& request);
  // `masks`: the request's own among them, if there are any.
  void sample_tokens(RequestId request_id, DraftTreeView drafts, std::span<const TokenMask> masks,
                     RequestCopy& request, std::vector<SampledToken>& sampled) const;
  void add_candidates(std::uint64_t history, std::int64_t count, ModelRunnerOutput& result) const;
  void pool(const ScheduledRequest& scheduled, const RequestCopy& request,
            ModelRunnerOutput& result) const;
  static void report_prompt(const ScheduledRequest& scheduled, const RequestCopy& request,
                            ModelRunnerOutput& result);
  bool valid(BlockId block_id) const { return block_id >= 0 && block_id < config_.num_blocks; }
  std::uint64_t& slot(BlockId page, std::size_t position) {
    const auto block_size = static_cast<std::size_t>(config_.block_size);
    return slots_[static_cast<std::size_t>(page) * block_size + position % block_size];
  }
  // What that token has left there, in a page of such a group: a state is one for all tokens.
  std::uint64_t& kept(std::size_t group_page, BlockId page, std::size_t position) {
    return slot(page, group_of_page_[group_page].state ? 0 : position);
  }
  // The page of a token, in the request's table: `page` among those of its block.
  BlockId page_of(const RequestCopy& request, std::size_t position, std::size_t page) const {
    const auto block = position / static_cast<std::size_t>(config_.block_size);
    return request.block_ids[block * group_of_page_.size() + page];
  }
  // As attention reads the first `num_tokens` tokens.
  Status read(RequestId request_id, const RequestCopy& request, std::int32_t num_tokens,
              std::size_t page);
  // The tokens [begin, end).
  Status write(RequestId request_id, const RequestCopy& request, std::int32_t begin,
               std::int32_t end, std::size_t page);
  void let_go(BlockId page) {
    if (page != kNullBlock) --num_holders_[static_cast<std::size_t>(page)];
  }
  void let_go_behind_windows(RequestCopy& request);

  SimulatedExecutorConfig config_;
  VirtualClock& clock_;
  std::vector<KvGroup> group_of_page_;  // of each page of a block of all groups
  std::unordered_map<RequestId, RequestCopy> requests_;
  std::vector<std::uint64_t> slots_;       // num_blocks x block_size
  std::vector<std::int32_t> num_holders_;  // of each page
  SimulatedTier tier_;                     // of slots_
  StepId last_step_ = 0;
  std::deque<Step> steps_;      // the oldest first
  std::size_t num_masked_ = 0;  // of these, those that have had sample()
};

}  // namespace quire
