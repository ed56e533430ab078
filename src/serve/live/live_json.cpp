#include "serve/live/live_json.h"

#include <cmath>

namespace quire {
namespace {

double rounded(double value) { return std::round(value * 1000) / 1000; }
double seconds(Duration duration) { return rounded(to_seconds(duration)); }
double rounded_milliseconds(Duration duration) { return rounded(to_seconds(duration) * 1e3); }

json::object sequence_json(const OutputState& each, Instant now) {
  json::object sequence = {{"request", each.id},
                           {"id", each.external_id},
                           {"index", each.index},
                           {"prompt_tokens", each.num_prompt_tokens},
                           {"cached_tokens", each.num_cached_tokens},
                           {"computed_tokens", each.num_computed_tokens},
                           {"known_tokens", each.num_tokens},
                           {"max_tokens", each.max_num_tokens},
                           {"blocks", each.num_blocks},
                           {"age_s", seconds(now - each.arrival)}};
  if (each.priority != 0) sequence["priority"] = each.priority;
  if (each.num_preemptions != 0) sequence["preemptions"] = each.num_preemptions;
  if (each.wait) {
    sequence["wait"] = wait_cause_name(*each.wait);
    sequence["waited_s"] = seconds(each.waited);
  }
  return sequence;
}

json::array sequences_json(const std::vector<OutputState>& sequences, Instant now) {
  json::array list;
  list.reserve(sequences.size());
  for (const OutputState& each : sequences) list.push_back(sequence_json(each, now));
  return list;
}

// [blocks, use, blocks, use, ...].
json::array runs_json(const std::vector<BlockRun>& runs) {
  json::array list;
  list.reserve(2 * runs.size());
  for (const BlockRun& run : runs) {
    list.push_back(run.num_blocks);
    list.push_back(run.use);
  }
  return list;
}

json::object blocks_json(const EngineStats& stats, const BlockRuns& map) {
  return {{"total", stats.blocks_total},   {"free", stats.blocks_free - stats.blocks_cached},
          {"cached", stats.blocks_cached}, {"used", stats.blocks_used},
          {"shared", stats.blocks_shared}, {"per_cell", map.blocks_per_cell},
          {"runs", runs_json(map.runs)}};
}

json::object latency_json(const LatencySummary& latency) {
  if (latency.count == 0) return {{"count", 0}};
  return {{"count", latency.count},
          {"p50_ms", rounded_milliseconds(latency.p50)},
          {"p90_ms", rounded_milliseconds(latency.p90)},
          {"p99_ms", rounded_milliseconds(latency.p99)},
          {"max_ms", rounded_milliseconds(latency.max)}};
}

json::object engine_json(const EngineInfo& info, std::string_view model_name) {
  return {{"model", model_name},
          {"max_num_seqs", info.max_num_seqs},
          {"max_num_batched_tokens", info.max_num_batched_tokens},
          {"max_model_len", info.max_model_len},
          {"block_size", info.block_size}};
}

// Since the start.
json::object speculation_json(const EngineStats& stats, const SpeculativeConfig& config) {
  json::array accepted_at;
  for (std::int32_t place = 0; place < config.num_speculative_tokens; ++place) {
    accepted_at.push_back(stats.draft_tokens_accepted_at[static_cast<std::size_t>(place)]);
  }
  json::object out = {{"method", speculative_method_name(config.method)},
                      {"max_tokens", config.num_speculative_tokens},
                      {"drafts", stats.num_drafted_rows},
                      {"draft_tokens", stats.draft_tokens},
                      {"accepted_tokens", stats.draft_tokens_accepted},
                      {"rejected_tokens", stats.draft_tokens_rejected},
                      {"accepted_at", std::move(accepted_at)},
                      {"draft_s", seconds(stats.speculation.draft)},
                      {"verify_s", seconds(stats.speculation.verify)},
                      {"draft_rows_s", seconds(stats.speculation.draft_rows)}};
  if (const auto speedup = stats.speculation.speedup()) out["speedup"] = rounded(*speedup);
  return out;
}

}  // namespace

std::optional<LiveRates> rates_between(const StatsAt& earlier, const StatsAt& later) {
  const double time = to_seconds(later.time - earlier.time);
  if (time <= 0) return std::nullopt;
  const auto rate = [&](std::int64_t EngineStats::*counter) {
    return rounded(static_cast<double>(later.stats.*counter - earlier.stats.*counter) / time);
  };
  return LiveRates{.prompt_tokens = rate(&EngineStats::prompt_tokens_computed),
                   .cached_tokens = rate(&EngineStats::prompt_tokens_cached),
                   .output_tokens = rate(&EngineStats::output_tokens_sampled),
                   .requests = rate(&EngineStats::num_finished) + rate(&EngineStats::num_aborted),
                   .steps = rate(&EngineStats::num_steps)};
}

json::object state_json(const LiveState& state, const EngineInfo& info,
                        std::string_view model_name) {
  const EngineStats& stats = state.look.stats;
  json::object result = {{"time_s", seconds(state.look.time)},
                         {"engine", engine_json(info, model_name)},
                         {"num_running", stats.num_running},
                         {"num_waiting", stats.num_waiting},
                         {"running", sequences_json(state.look.running, state.look.time)},
                         {"waiting", sequences_json(state.look.waiting, state.look.time)},
                         {"blocks", blocks_json(stats, *state.blocks)},
                         {"totals",
                          {{"steps", stats.num_steps},
                           {"requests_ended", stats.num_finished + stats.num_aborted},
                           {"preemptions", stats.num_preemptions},
                           {"prompt_tokens", stats.prompt_tokens_computed},
                           {"cached_tokens", stats.prompt_tokens_cached},
                           {"output_tokens", stats.output_tokens_sampled}}}};
  if (info.speculation) {
    result["speculation"] = speculation_json(stats, *info.speculation);
  }
  if (state.rates) {
    result["per_second"] = json::object{{"prompt_tokens", state.rates->prompt_tokens},
                                        {"cached_tokens", state.rates->cached_tokens},
                                        {"output_tokens", state.rates->output_tokens},
                                        {"requests", state.rates->requests},
                                        {"steps", state.rates->steps}};
  }
  if (state.latencies) {
    result["latency"] = json::object{{"first_token", latency_json(state.latencies->first_token)},
                                     {"inter_token", latency_json(state.latencies->inter_token)}};
  }
  return result;
}

}  // namespace quire
