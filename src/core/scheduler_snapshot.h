// The whole state of a scheduler between two steps, as plain data: what an event log begins with,
// so that a replay can start in the middle of a run. Who writes it to a file is not core's matter.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kv_cache_manager.h"
#include "core/request.h"
#include "core/scheduler.h"

namespace quire {

struct SchedulerSnapshot {
  SchedulerConfig config;
  StepPace pace;
  KvCacheManager::Snapshot kv;
  std::vector<RequestSnapshot> running;   // in order
  std::vector<RequestSnapshot> waiting;   // in order: the next one last
  std::vector<RequestSnapshot> fetching;  // in the order in which their fetches began
  std::vector<KvFetch> fetches;
  FetchId last_fetch_id = 0;
  bool waits_for_fetch = false;
  std::int64_t num_vacancies = 0;  // of the batch that forms
  std::int64_t last_start = 0;     // steps before the last one in which a request first ran
  std::vector<RetainedRow> retained;
  std::vector<PinnedPrefix> pins;
  std::vector<RequestId> removed_request_ids;     // that the executor has not been told of yet
  std::vector<BlockTruncation> truncated_tables;  // likewise
  std::vector<BlockReplacement> adopted_blocks;   // likewise
  std::uint64_t num_arrivals = 0;
  FairShares::Snapshot shares;
  std::int32_t num_overtaken = 0;
  SchedulerStats counters;  // its gauges are unused
};

// Visits every counter of a SchedulerStats, const or not, in an order that never changes.
template <typename Stats, typename Visit>
void visit_counters(Stats& stats, Visit&& visit) {
  visit(stats.num_steps);
  visit(stats.num_added);
  visit(stats.num_finished);
  visit(stats.num_aborted);
  for (auto& count : stats.num_rejected) visit(count);
  visit(stats.num_preemptions);
  visit(stats.num_preemptions_by_swap);
  visit(stats.num_forks);
  visit(stats.prompt_tokens_added);
  visit(stats.prompt_tokens_computed);
  visit(stats.prompt_tokens_cached);
  visit(stats.prompt_tokens_dropped);
  visit(stats.output_tokens_sampled);
  visit(stats.output_tokens_computed);
  visit(stats.tokens_recomputed);
  visit(stats.tokens_discarded);
  visit(stats.step_time_charged_ns);
  visit(stats.prefix_cache_queries);
  visit(stats.prefix_cache_hits);
  visit(stats.num_drafted_rows);
  visit(stats.draft_tokens);
  visit(stats.draft_tokens_accepted);
  visit(stats.draft_tokens_rejected);
  for (auto& count : stats.draft_tokens_accepted_at) visit(count);
  visit(stats.num_kv_fetches);
  visit(stats.blocks_offloaded);
  visit(stats.blocks_fetched);
  visit(stats.blocks_fetch_failed);
  visit(stats.external_prefix_cache_queries);
  visit(stats.external_prefix_cache_hits);
}

}  // namespace quire
