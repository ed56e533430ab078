#include "apps/simulate/what_if.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/engine_args.h"

namespace quire {
namespace {

std::int64_t tokens_of(const SchedulerConfig& scheduler) {
  return std::int64_t{scheduler.num_blocks} / pages_per_block(scheduler.kv_groups) *
         scheduler.block_size;
}

Status check_what_a_log_says(const RecordedRun& run, const SimulationSettings& settings) {
  const auto unknown = [](std::string_view what) {
    return Status::invalid_argument(
        fmt::format("{}: an event log does not say how its model runs so", what),
        "name a MODEL and a --device to simulate the log's traffic with others");
  };
  if (settings.tp > 1) return unknown("--tp");
  if (settings.pp > 1) return unknown("--pp");
  if (settings.prefill_replicas > 0) return unknown("--prefill-replicas");
  if (settings.kv != "paged") return unknown("--kv");
  if (settings.kv_offloading_size > 0) return unknown("--kv-offloading-size");
  const auto& groups = run.scheduler.kv_groups;
  if (settings.block_size != run.scheduler.block_size &&
      (groups.size() > 1 || !groups.front().keeps_all())) {
    return unknown("--block-size, for layers with windows or states");
  }
  return {};
}

Result<SchedulerConfig> changed(const RecordedRun& run, const SimulationSettings& settings) {
  SchedulerConfig scheduler = run.scheduler;
  scheduler.max_num_seqs = static_cast<std::int32_t>(settings.max_num_seqs);
  scheduler.max_num_batched_tokens = static_cast<std::int32_t>(settings.max_num_batched_tokens);
  scheduler.enable_prefix_caching = settings.prefix_caching;
  scheduler.enable_chunked_prefill = settings.chunked_prefill;
  QUIRE_ASSIGN_OR_RETURN(scheduler.policy, parse_policy(settings.policy));
  QUIRE_ASSIGN_OR_RETURN(scheduler.batching, parse_batching(settings.batching));
  scheduler.admission = admission_of(settings);
  if (scheduler.batching == Batching::kDynamic && run.scheduler.batching != Batching::kDynamic) {
    scheduler.max_batch_delay = kSimulatedBatchDelay;
  }
  scheduler.block_size = static_cast<std::int32_t>(settings.block_size);
  if (scheduler.block_size != run.scheduler.block_size ||
      settings.kv_tokens != tokens_of(run.scheduler)) {
    const std::int64_t pages =
        *settings.kv_tokens / scheduler.block_size * pages_per_block(scheduler.kv_groups);
    scheduler.num_blocks = static_cast<std::int32_t>(
        std::min<std::int64_t>(pages, std::numeric_limits<std::int32_t>::max() / 2));
  }
  QUIRE_RETURN_IF_ERROR(scheduler.validate());
  return scheduler;
}

}  // namespace

SimulationSettings recorded_settings(const RecordedRun& run, const SimulationSettings& given) {
  const SchedulerConfig& scheduler = run.scheduler;
  SimulationSettings settings;
  settings.max_num_seqs = scheduler.max_num_seqs;
  settings.max_num_batched_tokens = scheduler.max_num_batched_tokens;
  settings.block_size = scheduler.block_size;
  settings.kv_tokens = tokens_of(scheduler);
  settings.prefix_caching = scheduler.enable_prefix_caching;
  settings.chunked_prefill = scheduler.enable_chunked_prefill;
  settings.policy = policy_name(scheduler.policy);
  settings.batching = batching_name(scheduler.batching);
  settings.waiting_served_ratio = scheduler.admission.waiting_served_ratio;
  settings.max_waiting_tokens = scheduler.admission.max_waiting_tokens;
  settings.acceptance = given.acceptance;
  if (run.drafts != nullptr) {
    settings.num_speculative_tokens = static_cast<std::int64_t>(run.drafts->most());
    if (given.acceptance.empty()) settings.recorded_drafts = run.drafts;
  }
  settings.draft_s = given.draft_s;
  settings.ttft_s = given.ttft_s;
  settings.tpot_s = given.tpot_s;
  settings.pace = run.pace;
  return settings;
}

Result<RecordedStepTimes> recorded_step_times(const RecordedRun& run,
                                              const std::optional<StepTimes>& given) {
  RecordedStepTimes recorded;
  if (given) {
    recorded.times = *given;
  } else {
    const auto fit = fit_step_times(run.steps);
    if (!fit.ok()) {
      return Status{fit.status().code(), fit.status().message(),
                    "measure what steps cost: quire bench calibrate --output costs.json, then "
                    "--step-cost costs.json"};
    }
    recorded.times = fit->times;
  }
  recorded.times = in_proportion(recorded.times, run.steps);
  recorded.mean_error = mean_error(recorded.times, run.steps);
  recorded.kinds = step_kinds(recorded.times, run.steps);
  return recorded;
}

SimulationOutcome recorded_outcome(const RecordedRun& run, const SimulationSettings& settings,
                                   std::optional<double> usd_per_hour) {
  FleetConfig fleet;
  fleet.scheduler = run.scheduler;
  return outcome_of(run.result, fleet, settings, usd_per_hour);
}

Result<SimulationOutcome> simulate_recorded(const RecordedRun& run,
                                            const SimulationSettings& settings,
                                            const std::vector<StepKind>& kinds,
                                            std::optional<double> usd_per_hour,
                                            const std::function<void(std::size_t)>& progress) {
  QUIRE_RETURN_IF_ERROR(check_what_a_log_says(run, settings));
  FleetConfig fleet;
  QUIRE_ASSIGN_OR_RETURN(fleet.scheduler, changed(run, settings));
  QUIRE_RETURN_IF_ERROR(set_servers(settings, fleet));
  fleet.progress = progress;
  Duration all{};
  Duration of_recorded_kinds{};
  fleet.step_time = [&](const SchedulerOutput& step, std::size_t /*stage*/) {
    const StepWork work = work_of(step);
    const Duration time = settings.step_times->time_of(work);
    all += time;
    if (find_kind(kinds, tokens_of(work)) != nullptr) of_recorded_kinds += time;
    return time;
  };
  QUIRE_ASSIGN_OR_RETURN(SimulationOutcome outcome,
                         run_simulation(fleet, settings, usd_per_hour, run.traffic));
  outcome.summary.recorded_step_share =
      all > Duration::zero() ? to_seconds(of_recorded_kinds) / to_seconds(all) : 0;
  return outcome;
}

}  // namespace quire
