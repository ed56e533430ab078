// The settings of a scheduler.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "core/batch_former.h"
#include "core/kv_group.h"

namespace quire {

// Who goes first, of those that wait; of equals the earliest arrival. The first four are orders. If
// blocks run out, the first goes on, and of an order by more than arrival who is not last in it.
// In all but kPriority a request is overtaken by so many at most, and by those that were preempted.
enum class SchedulingPolicy : std::uint8_t {
  kFcfs,      // the earliest arrival
  kPriority,  // the lowest priority value
  // The fewest tokens, prompt and output at most; each later arrival weighs one token.
  kShortest,
  kDeadline,  // the earliest deadline, AddRequest::deadline after the arrival
  // Whose user has been given the least (core/fair_shares.h). Where there is no place for it, the
  // last request of a user who would still have as many running as this one gives up its own.
  kFair,
  // Of the earliest few the one of which the prefix cache has most; the earliest, where
  // max_overtaken have gone before it.
  kLongestPrefix,
};
std::string_view policy_name(SchedulingPolicy policy);  // as on the command line: "fcfs" and so on

struct SchedulerConfig {
  std::int32_t max_num_seqs = 256;             // requests that run at once
  std::int32_t max_num_batched_tokens = 2048;  // tokens of one step
  std::int32_t max_model_len = 2048;           // tokens of one sequence, prompt and output
  std::int32_t block_size = 16;                // tokens of one KV block
  std::int32_t num_blocks = 0;                 // of the KV pool: pages that all groups share
  std::vector<KvGroup> kv_groups = {KvGroup{}};
  std::int32_t max_queued = 4096;        // requests that wait; preempted ones count too
  std::int32_t max_steps_in_flight = 1;  // planned, their results not known yet
  bool enable_chunked_prefill = true;    // a prompt may be spread over several steps
  bool enable_prefix_caching = true;     // full blocks are found again by their content
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  std::int32_t max_overtaken = 64;  // how often the earliest one is, with kLongestPrefix
  // So many tokens of a prefix that another computes are worth waiting for, at least.
  std::int32_t min_prefix_in_flight = 64;
  Batching batching = Batching::kContinuous;
  Duration max_batch_delay{};  // of dynamic batching, from the oldest waiting arrival
  AdmissionPace admission;     // of continuous batching
  // Of a request's drafts in a step, in [1, kMaxDrafts]: of a tree the longest. 1: chains.
  std::int32_t max_draft_paths = 1;
  // Blocks that leave the prefix cache may come back from a lower tier: with prefix caching, for a
  // model of one KV group that keeps all.
  bool kv_tier = false;
  // Of num_blocks, what pinned prefixes hold at most (core/pinned_prefixes.h), each counted in
  // full; a request may need what is left. Less than num_blocks; 0: nothing is pinned.
  std::int32_t max_pinned_blocks = 0;
  std::vector<TokenId> eos_token_ids;

  // Tokens that the steps in flight compute at most.
  std::int64_t max_tokens_in_flight() const {
    return std::int64_t{max_steps_in_flight} * max_num_batched_tokens;
  }
  // kConfig naming the settings that contradict each other, kInvalidArgument for one out of range.
  Status validate() const;
};

}  // namespace quire
