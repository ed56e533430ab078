#include "engine/engine_stats.h"

namespace quire {

EngineStats engine_stats(const SchedulerStats& stats, const SchedulerConfig& config,
                         std::span<const KvCacheManager::GroupUse> uses,
                         const SpeculationTimes& speculation, const TierStats& tier) {
  EngineStats shown = {.num_waiting = stats.num_waiting,
                       .num_running = stats.num_running,
                       .blocks_total = stats.blocks_total,
                       .blocks_free = stats.blocks_free,
                       .blocks_used = stats.blocks_used,
                       .blocks_leaked = stats.blocks_leaked,
                       .blocks_cached = stats.blocks_cached,
                       .blocks_shared = stats.blocks_shared,
                       .blocks_saved = stats.blocks_saved,
                       .kv_groups = {},
                       .max_step = stats.max_step,
                       .blocks_tiered = stats.blocks_tiered,
                       .num_fetching = stats.num_fetching,
                       .num_pins = stats.num_pins,
                       .blocks_pinned = stats.blocks_pinned,
                       .num_steps = stats.num_steps,
                       .num_added = stats.num_added,
                       .num_finished = stats.num_finished,
                       .num_aborted = stats.num_aborted,
                       .rejections = {},
                       .num_preemptions = stats.num_preemptions,
                       .num_preemptions_by_swap = stats.num_preemptions_by_swap,
                       .num_forks = stats.num_forks,
                       .prompt_tokens_added = stats.prompt_tokens_added,
                       .prompt_tokens_computed = stats.prompt_tokens_computed,
                       .prompt_tokens_cached = stats.prompt_tokens_cached,
                       .prompt_tokens_dropped = stats.prompt_tokens_dropped,
                       .prompt_tokens_pending = stats.prompt_tokens_pending,
                       .output_tokens_sampled = stats.output_tokens_sampled,
                       .output_tokens_computed = stats.output_tokens_computed,
                       .tokens_recomputed = stats.tokens_recomputed,
                       .tokens_discarded = stats.tokens_discarded,
                       .step_time_charged_ns = stats.step_time_charged_ns,
                       .prefix_cache_queries = stats.prefix_cache_queries,
                       .prefix_cache_hits = stats.prefix_cache_hits,
                       .num_drafted_rows = stats.num_drafted_rows,
                       .draft_tokens = stats.draft_tokens,
                       .draft_tokens_accepted = stats.draft_tokens_accepted,
                       .draft_tokens_rejected = stats.draft_tokens_rejected,
                       .draft_tokens_accepted_at = stats.draft_tokens_accepted_at,
                       .speculation = speculation,
                       .num_kv_fetches = stats.num_kv_fetches,
                       .blocks_offloaded = stats.blocks_offloaded,
                       .blocks_fetched = stats.blocks_fetched,
                       .blocks_fetch_failed = stats.blocks_fetch_failed,
                       .external_prefix_cache_queries = stats.external_prefix_cache_queries,
                       .external_prefix_cache_hits = stats.external_prefix_cache_hits,
                       .tier = tier};
  // As many numbers of eight bytes on both sides: a further one is added here, too.
  static_assert(sizeof(EngineStats) - sizeof(shown.kv_groups) - sizeof(shown.rejections) -
                    sizeof(shown.speculation) - sizeof(shown.tier) ==
                sizeof(SchedulerStats) - sizeof(stats.num_rejected));
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const KvGroup& group = config.kv_groups[i];
    shown.kv_groups.push_back({.window = group.state ? 0 : group.window,
                               .state = group.state,
                               .pages_used = uses[i].num_used,
                               .pages_cached = uses[i].num_cached});
  }
  for (std::size_t i = 0; i < kNumRejectCauses; ++i) {
    shown.rejections.push_back(
        {.cause = reject_cause_name(static_cast<RejectCause>(i)), .count = stats.num_rejected[i]});
  }
  return shown;
}

}  // namespace quire
