// Servers in virtual time and a router in front of them. Prompts may be computed by some of the
// servers and handed over to the others (disaggregated prefill: Zhong et al. 2024, "DistServe",
// arXiv 2401.09670; Patel et al. 2024, "Splitwise", arXiv 2311.18677).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/scheduler.h"
#include "sim/simulated_server.h"
#include "sim/traffic.h"

namespace quire {

// Which server a request goes to.
enum class RouterPolicy : std::uint8_t {
  kRoundRobin,
  kLeastLoaded,  // the one with the fewest requests
  // The one that was given the longest part of the same beginning last, unless it has twice as many
  // requests as the least loaded and a few more; else the least loaded.
  kPrefix,
};

struct FleetConfig {
  SchedulerConfig scheduler;  // of each server; validate() passes
  int num_servers = 1;
  // Of these, those that compute prompts alone, and the first token; the others, to which requests
  // go by their load, continue then. 0: each server does both.
  int num_prefill_servers = 0;
  // Devices of a server that have a part of the layers each. A server has as many schedulers, whose
  // steps are in different stages; each has its part of the sequences and of the KV cache.
  int pipeline_stages = 1;
  RouterPolicy router = RouterPolicy::kRoundRobin;
  std::function<Duration(const SchedulerOutput&, std::size_t stage)> step_time;  // ServerConfig's
  StepPace pace = {};  // this and the next, too
  std::function<SimulatedPacer()> make_pacer = {};
  SimulatedTierConfig tier = {};  // of each server; without blocks there is none
  // To hand over the keys and values of so many tokens; where there are prefill servers.
  std::function<Duration(std::int64_t num_tokens)> transfer_time = {};
  SimulatedDrafts drafts = {};
  // Told now and then how many requests have ended; may be empty.
  std::function<void(std::size_t ended)> progress = {};

  // What each of a server's schedulers has.
  SchedulerConfig stage_scheduler() const;
  SimulatedTierConfig stage_tier() const;
  // kConfig or kInvalidArgument naming what contradicts what.
  Status validate() const;
};

struct SimulatedRequest {
  Instant arrival{};
  Instant first_token{};
  Instant end{};
  std::int32_t input_len = 0;
  std::int32_t output_len = 0;
  std::int32_t num_cached_tokens = 0;
  std::int32_t num_preemptions = 0;

  double ttft_s() const { return to_seconds(first_token - arrival); }
  // Of each token after the first; 0 where there is none.
  double tpot_s() const {
    return output_len > 1 ? to_seconds(end - first_token) / (output_len - 1) : 0;
  }
};

struct FleetResult {
  std::vector<SimulatedRequest> requests;  // in order of their ends
  std::array<std::int64_t, kNumRejectCauses> num_rejected{};
  Duration duration{};      // until the last end
  Duration busy{};          // of steps, over all servers and stages
  Duration longest_step{};  // that gave some request a token after its first
  std::int64_t num_steps = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_preemptions_by_swap = 0;
  std::int64_t tokens_recomputed = 0;
  std::int64_t tokens_discarded = 0;
  std::int64_t prompt_tokens_computed = 0;
  std::int64_t prompt_tokens_cached = 0;
  std::int64_t output_tokens = 0;
  std::int64_t prefix_cache_queries = 0;
  std::int64_t prefix_cache_hits = 0;
  std::int64_t num_kv_fetches = 0;  // from tiers, and the blocks that came and went there
  std::int64_t blocks_fetched = 0;
  std::int64_t blocks_offloaded = 0;
  std::int64_t prompt_tokens_fetched = 0;
  Duration fetch_time{};  // of all fetches
  std::int64_t draft_tokens = 0;
  std::int64_t draft_tokens_accepted = 0;
  // Means over the time of steps.
  double running = 0;   // requests of a scheduler
  double kv_used = 0;   // of its pages
  double kv_waste = 0;  // of the slots that sequences hold, those without a token
  std::vector<std::int64_t> server_requests;  // that each got

  void take(const StepTotals& totals);
};

// Runs until all requests have ended. FleetConfig::validate()'s errors, kInternal for a law of the
// scheduler that is broken.
Result<FleetResult> simulate_fleet(const FleetConfig& config, const Traffic& traffic);

}  // namespace quire
