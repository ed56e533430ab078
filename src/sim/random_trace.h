// Settings of a scheduler with traffic that strains them, from one seed: what the simulation of the
// scheduler runs by the thousand. And what each request must give whatever else happens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "core/scheduler.h"
#include "sim/simulated_tier.h"
#include "sim/workload.h"

namespace quire {

struct TraceConfig {
  SchedulerConfig scheduler;
  WorkloadConfig workload;
  SimulatedTierConfig tier;  // where the scheduler has one
};

// From pools that refuse some requests to pools where nothing is ever preempted, all policies and
// ways of batching, with and without chunks and prefix cache.
TraceConfig random_trace(std::uint64_t seed);
// The same traffic for a model of up to four KV groups, with windows from one token to more than a
// sequence has, in a pool that strains it as much.
TraceConfig random_trace_of_groups(std::uint64_t seed);

struct SoloRun {
  std::vector<TokenId> output_token_ids;
  FinishReason reason = FinishReason::kLength;
  std::uint64_t prompt_history = 0;  // what a pooling request's hidden state is made of
};

// Output `sample_index` of a request that is alone, computed without a scheduler.
SoloRun solo_run(const AddRequest& request, std::int32_t sample_index,
                 const SchedulerConfig& config, std::int32_t vocab_size);

// Guesses at what comes next of `expected`, most of them right: a chain, or a tree of which each
// token follows the text or any other guess.
DraftTree random_drafts(std::span<const TokenId> expected, RandomStream& random);

}  // namespace quire
