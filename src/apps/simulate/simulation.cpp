#include "apps/simulate/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/plan/plan_values.h"
#include "base/checked.h"
#include "engine/engine_args.h"
#include "engine/engine_sizing.h"
#include "engine/step_pacer.h"

namespace quire {
namespace {

constexpr std::int64_t kMostPages = std::numeric_limits<std::int32_t>::max() / 2;

RouterPolicy router_of(const std::string& name) {
  if (name == "least-loaded") return RouterPolicy::kLeastLoaded;
  return name == "prefix" ? RouterPolicy::kPrefix : RouterPolicy::kRoundRobin;
}

// The pool of a server: as many tokens as asked for, or as the devices' memory leaves in the stage
// that has room for the fewest.
Status size_pool(const PlannedModel& model, const DevicePlan& plan,
                 const SimulationSettings& settings, SchedulerConfig& scheduler) {
  const std::int32_t pages_of_block = pages_per_block(scheduler.kv_groups);
  const double tokens =
      settings.kv_tokens ? static_cast<double>(*settings.kv_tokens) : plan.kv_tokens;
  const double blocks = tokens / scheduler.block_size;
  const auto pages =
      static_cast<std::int64_t>(std::min(blocks * pages_of_block, static_cast<double>(kMostPages)));
  if (pages < std::int64_t{pages_of_block} * settings.pp) {
    return Status::resource_exhausted(
        fmt::format("{} leaves {} of {}'s memory for the KV cache, less than a block of {} tokens",
                    model.name, binary_bytes(plan.fit.kv_cache), plan.device.name,
                    scheduler.block_size),
        "raise --tp or --pp, use a smaller --dtype, or lower --max-model-len");
  }
  scheduler.num_blocks = static_cast<std::int32_t>(pages);
  return {};
}

// The files of KV blocks of one server, which have the parts of all its devices.
Result<SimulatedTierConfig> tier_of(const DevicePlan& plan, const SimulationSettings& settings,
                                    const SchedulerConfig& scheduler) {
  SimulatedTierConfig tier;
  if (settings.kv_offloading_size == 0) return tier;
  if (!scheduler.enable_prefix_caching || scheduler.kv_groups.size() > 1 ||
      !scheduler.kv_groups.front().keeps_all()) {
    return Status::invalid_argument(
        "--kv-offloading-size: only KV blocks of a prefix cache go to files, of a model whose "
        "layers all keep the keys and values of all tokens",
        "leave it out");
  }
  double token_bytes = 0;
  for (const ModelFootprint& stage : plan.stages) token_bytes += stage.kv_bytes_per_token();
  const double block_bytes =
      token_bytes * plan.layout.tp * static_cast<double>(scheduler.block_size);
  tier.max_blocks =
      static_cast<std::int64_t>(settings.kv_offloading_size * (1 << 30) / block_bytes);
  tier.block_time =
      Duration(static_cast<Duration::rep>(block_bytes / (settings.kv_offload_gbs * 1e9) * 1e9));
  return tier;
}

Result<SchedulerConfig> scheduler_of(const PlannedModel& model, const DevicePlan& plan,
                                     const SimulationSettings& settings, std::size_t num_requests) {
  SchedulerConfig scheduler;
  const bool reserved = settings.kv == "reserved";
  scheduler.max_model_len = static_cast<std::int32_t>(model.max_len);
  scheduler.max_num_seqs = static_cast<std::int32_t>(settings.max_num_seqs);
  scheduler.max_num_batched_tokens = static_cast<std::int32_t>(settings.max_num_batched_tokens);
  // A sequence's whole length in one piece, from its start: one block that is as long.
  scheduler.block_size =
      reserved ? scheduler.max_model_len : static_cast<std::int32_t>(settings.block_size);
  scheduler.kv_groups = reserved ? std::vector<KvGroup>{KvGroup{}}
                                 : kv_groups(model.spec, model.max_len, {scheduler.block_size});
  scheduler.enable_prefix_caching = settings.prefix_caching && !reserved;
  scheduler.enable_chunked_prefill = settings.chunked_prefill;
  QUIRE_ASSIGN_OR_RETURN(scheduler.policy, parse_policy(settings.policy));
  QUIRE_ASSIGN_OR_RETURN(scheduler.batching, parse_batching(settings.batching));
  scheduler.admission = admission_of(settings);
  if (scheduler.batching == Batching::kDynamic) scheduler.max_batch_delay = kSimulatedBatchDelay;
  scheduler.max_queued = static_cast<std::int32_t>(
      std::min<std::size_t>(num_requests + 1, std::numeric_limits<std::int32_t>::max()));
  QUIRE_RETURN_IF_ERROR(size_pool(model, plan, settings, scheduler));
  QUIRE_RETURN_IF_ERROR(scheduler.validate());
  return scheduler;
}

double roofline_s(const CostModel& cost, const SchedulerOutput& plan) {
  RooflineWork work;
  for (const ScheduledRequest& each : plan.scheduled) {
    cost.add(work, each.num_computed_tokens, each.num_scheduled_tokens,
             each.use == RowUse::kNothing ? 0 : 1 + each.num_drafts);
  }
  return cost.time(work).expected_s;
}

// What a step takes in a stage, with the way there. A time that was measured is that of all stages
// on one device: each has the share of it that its roofline has.
Duration stage_time(const DevicePlan& plan, const SimulationSettings& settings,
                    const SchedulerOutput& step, std::size_t stage) {
  const PipelineCost& cost = plan.cost;
  double seconds = roofline_s(cost.stage(stage), step);
  if (settings.step_times) {
    double all = 0;
    for (std::size_t i = 0; i < cost.num_stages(); ++i) all += roofline_s(cost.stage(i), step);
    seconds = to_seconds(settings.step_times->time_of(work_of(step))) * seconds / all;
    if (stage > 0) seconds += plan.device.efficiencies.step_overhead_s;
  }
  if (stage > 0)
    seconds += cost.expected_hop_s(static_cast<double>(step.total_num_scheduled_tokens));
  return Duration(static_cast<Duration::rep>(seconds * 1e9));
}

// Every device of a server hands over its own part.
Duration transfer_time(const DevicePlan& plan, const SimulationSettings& settings,
                       std::int64_t num_tokens) {
  double bytes = 0;
  for (const ModelFootprint& stage : plan.stages) {
    bytes = std::max(bytes, stage.kv_bytes(num_tokens, settings.block_size));
  }
  return Duration(static_cast<Duration::rep>(bytes / settings.transfer_bandwidth * 1e9));
}

Result<SimulatedDrafts> drafts_of(const SimulationSettings& settings) {
  SimulatedDrafts drafts;
  if (settings.num_speculative_tokens == 0) return drafts;
  drafts.recorded = settings.recorded_drafts;
  if (settings.acceptance.empty() && drafts.recorded == nullptr) {
    return Status::invalid_argument("--num-speculative-tokens: it is not said how many are right",
                                    "give --speculative-acceptance, like 0.8 or 0.8,0.7,0.6");
  }
  if (settings.num_speculative_tokens > kMaxDrafts) {
    return Status::invalid_argument(fmt::format("--num-speculative-tokens {}: expected at most {}",
                                                settings.num_speculative_tokens, kMaxDrafts));
  }
  drafts.acceptance = settings.acceptance;
  drafts.acceptance.resize(static_cast<std::size_t>(settings.num_speculative_tokens),
                           settings.acceptance.empty() ? 0 : settings.acceptance.back());
  drafts.time = Duration(static_cast<Duration::rep>(settings.draft_s.value_or(0) * 1e9));
  return drafts;
}

SimulationSummary summarize(const FleetResult& result, const SimulationSettings& settings,
                            const FleetConfig& fleet, std::optional<double> usd_per_hour) {
  SimulationSummary summary;
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> latency;
  std::int64_t good = 0;
  double inputs = 0;
  double cached = 0;
  double outputs = 0;
  for (const SimulatedRequest& each : result.requests) {
    ttft.push_back(each.ttft_s());
    if (each.output_len > 1) tpot.push_back(each.tpot_s());
    latency.push_back(to_seconds(each.end - each.arrival));
    inputs += each.input_len;
    cached += each.num_cached_tokens;
    outputs += each.output_len;
    const bool first = !settings.ttft_s || each.ttft_s() <= *settings.ttft_s;
    const bool further = !settings.tpot_s || each.tpot_s() <= *settings.tpot_s;
    good += first && further ? 1 : 0;
  }
  const double duration = std::max(to_seconds(result.duration), 1e-9);
  const auto ended = static_cast<double>(result.requests.size());
  summary.num_requests = std::ssize(result.requests);
  for (const std::int64_t rejected : result.num_rejected) summary.num_rejected += rejected;
  summary.kv_tokens = std::int64_t{fleet.scheduler.num_blocks} /
                      pages_per_block(fleet.scheduler.kv_groups) * fleet.scheduler.block_size;
  summary.duration_s = to_seconds(result.duration);
  summary.requests_per_s = ended / duration;
  summary.input_tokens_per_s = inputs / duration;
  summary.output_tokens_per_s = outputs / duration;
  summary.ttft_s = statistics(std::move(ttft));
  summary.tpot_s = statistics(std::move(tpot));
  summary.latency_s = statistics(std::move(latency));
  summary.good_share = ended > 0 ? static_cast<double>(good) / ended : 0;
  summary.goodput = static_cast<double>(good) / duration;
  summary.busy = to_seconds(result.busy) / duration / settings.replicas / settings.pp;
  summary.occupancy = result.running / fleet.stage_scheduler().max_num_seqs;
  summary.kv_used = result.kv_used;
  summary.kv_waste = result.kv_waste;
  summary.hit_rate = inputs > 0 ? cached / inputs : 0;
  summary.fetched_rate =
      inputs > 0 ? static_cast<double>(result.prompt_tokens_fetched) / inputs : 0;
  summary.num_kv_fetches = result.num_kv_fetches;
  summary.blocks_fetched = result.blocks_fetched;
  summary.blocks_offloaded = result.blocks_offloaded;
  if (result.num_kv_fetches > 0) {
    summary.fetch_s = to_seconds(result.fetch_time) / static_cast<double>(result.num_kv_fetches);
  }
  summary.longest_step_s = to_seconds(result.longest_step);
  summary.num_steps = result.num_steps;
  summary.num_preemptions = result.num_preemptions;
  summary.num_preemptions_by_swap = result.num_preemptions_by_swap;
  summary.tokens_recomputed = result.tokens_recomputed;
  summary.tokens_discarded = result.tokens_discarded;
  summary.draft_tokens = result.draft_tokens;
  summary.draft_tokens_accepted = result.draft_tokens_accepted;
  summary.server_requests = result.server_requests;
  if (usd_per_hour) {
    summary.usd = *usd_per_hour * settings.replicas * duration / 3600;
    if (outputs > 0) summary.usd_per_million_output = *summary.usd / outputs * 1e6;
  }
  return summary;
}

}  // namespace

Status set_servers(const SimulationSettings& settings, FleetConfig& fleet) {
  fleet.num_servers = settings.replicas;
  fleet.num_prefill_servers = settings.prefill_replicas;
  fleet.pipeline_stages = settings.pp;
  fleet.router = router_of(settings.router);
  QUIRE_ASSIGN_OR_RETURN(fleet.drafts, drafts_of(settings));
  fleet.pace = settings.pace;
  if (settings.pace.limited()) return {};
  std::optional<Duration> max_step;
  if (settings.max_step_ms) {
    max_step = Duration(static_cast<Duration::rep>(*settings.max_step_ms * 1e6));
  }
  fleet.make_pacer = [max_step]() -> SimulatedPacer {
    return [pacer = StepPacer(max_step)](const StepWork& work, Duration time,
                                         std::span<const TierReport::Fetched> fetches) mutable {
      pacer.measured(work, time);
      pacer.fetched(fetches);
      return pacer.pace();
    };
  };
  return {};
}

Result<SimulationOutcome> simulate(const PlannedModel& model, const PlanDevice& device,
                                   const PlanSettings& plan_settings,
                                   const SimulationSettings& settings, const Traffic& traffic,
                                   const std::function<void(std::size_t)>& progress) {
  PlanSettings sized = plan_settings;
  sized.capacity.batched_tokens = settings.max_num_batched_tokens;
  sized.capacity.max_num_seqs = settings.max_num_seqs;
  sized.network = settings.transfer_bandwidth;
  QUIRE_ASSIGN_OR_RETURN(const DevicePlan plan,
                         make_device_plan(model, device, {settings.tp, settings.pp}, sized));
  QUIRE_ASSIGN_OR_RETURN(SchedulerConfig scheduler,
                         scheduler_of(model, plan, settings, traffic.arrivals.size()));
  FleetConfig fleet;
  QUIRE_ASSIGN_OR_RETURN(fleet.tier, tier_of(plan, settings, scheduler));
  fleet.scheduler = std::move(scheduler);
  QUIRE_RETURN_IF_ERROR(set_servers(settings, fleet));
  fleet.progress = progress;
  fleet.step_time = [&plan, &settings](const SchedulerOutput& step, std::size_t stage) {
    return stage_time(plan, settings, step, stage);
  };
  fleet.transfer_time = [&plan, &settings](std::int64_t num_tokens) {
    return transfer_time(plan, settings, num_tokens);
  };
  return run_simulation(fleet, settings, plan.usd_per_hour, traffic);
}

Result<SimulationOutcome> run_simulation(const FleetConfig& fleet,
                                         const SimulationSettings& settings,
                                         std::optional<double> usd_per_hour,
                                         const Traffic& traffic) {
  QUIRE_ASSIGN_OR_RETURN(const FleetResult result, simulate_fleet(fleet, traffic));
  return outcome_of(result, fleet, settings, usd_per_hour);
}

SimulationOutcome outcome_of(const FleetResult& result, const FleetConfig& fleet,
                             const SimulationSettings& settings,
                             std::optional<double> usd_per_hour) {
  SimulationOutcome outcome;
  outcome.summary = summarize(result, settings, fleet, usd_per_hour);
  outcome.requests.reserve(result.requests.size());
  for (const SimulatedRequest& each : result.requests) {
    outcome.requests.push_back({.arrival = to_seconds(each.arrival),
                                .first = to_seconds(each.first_token),
                                .end = to_seconds(each.end)});
  }
  return outcome;
}

json::object to_json(const SimulationSummary& summary) {
  const auto usd = [](const std::optional<double>& value) {
    return value ? json::value(*value) : json::value(nullptr);
  };
  json::object report = {{"num_requests", summary.num_requests},
                         {"num_rejected", summary.num_rejected},
                         {"kv_tokens", summary.kv_tokens},
                         {"duration_s", summary.duration_s},
                         {"requests_per_s", summary.requests_per_s},
                         {"input_tokens_per_s", summary.input_tokens_per_s},
                         {"output_tokens_per_s", summary.output_tokens_per_s},
                         {"ttft_s", to_json(summary.ttft_s)},
                         {"tpot_s", to_json(summary.tpot_s)},
                         {"latency_s", to_json(summary.latency_s)},
                         {"good_share", summary.good_share},
                         {"goodput", summary.goodput},
                         {"busy", summary.busy},
                         {"occupancy", summary.occupancy},
                         {"kv_used", summary.kv_used},
                         {"kv_waste", summary.kv_waste},
                         {"hit_rate", summary.hit_rate},
                         {"fetched_rate", summary.fetched_rate},
                         {"num_kv_fetches", summary.num_kv_fetches},
                         {"blocks_fetched", summary.blocks_fetched},
                         {"blocks_offloaded", summary.blocks_offloaded},
                         {"fetch_s", summary.fetch_s},
                         {"longest_step_s", summary.longest_step_s},
                         {"num_steps", summary.num_steps},
                         {"num_preemptions", summary.num_preemptions},
                         {"num_preemptions_by_swap", summary.num_preemptions_by_swap},
                         {"tokens_recomputed", summary.tokens_recomputed},
                         {"tokens_discarded", summary.tokens_discarded},
                         {"draft_tokens", summary.draft_tokens},
                         {"draft_tokens_accepted", summary.draft_tokens_accepted},
                         {"server_requests", json::array(summary.server_requests.begin(),
                                                         summary.server_requests.end())},
                         {"usd", usd(summary.usd)},
                         {"usd_per_million_output_tokens", usd(summary.usd_per_million_output)}};
  if (summary.recorded_step_share) report["recorded_step_share"] = *summary.recorded_step_share;
  return report;
}

std::string summary_text(const SimulationSummary& summary) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<18}{}\n", name, value);
  };
  const auto times = [&](std::string_view name, const Statistics& all) {
    line(name, fmt::format("mean {}, p50 {}, p90 {}, p99 {}", time_text(all.mean),
                           time_text(all.p50), time_text(all.p90), time_text(all.p99)));
  };
  line("requests", fmt::format("{} ended, {} rejected, in {}", summary.num_requests,
                               summary.num_rejected, time_text(summary.duration_s)));
  line("throughput",
       fmt::format("{:.2f} requests/s, {:.1f} tokens/s in, {:.1f} out", summary.requests_per_s,
                   summary.input_tokens_per_s, summary.output_tokens_per_s));
  times("first token", summary.ttft_s);
  times("further tokens", summary.tpot_s);
  times("whole answer", summary.latency_s);
  line("goodput", fmt::format("{:.2f} requests/s, {:.1f}% of the requests", summary.goodput,
                              summary.good_share * 100));
  line("servers", fmt::format("compute {:.1f}% of the time, {:.1f}% of their rows taken, {} steps, "
                              "the longest that others waited for {}",
                              summary.busy * 100, summary.occupancy * 100, summary.num_steps,
                              time_text(summary.longest_step_s)));
  line("KV cache", fmt::format("{} tokens a server, {:.1f}% used, of what sequences hold {:.1f}% "
                               "without a token",
                               summary.kv_tokens, summary.kv_used * 100, summary.kv_waste * 100));
  line("prefix cache", fmt::format("{:.1f}% of prompt tokens found", summary.hit_rate * 100));
  if (summary.blocks_offloaded > 0) {
    line("files",
         fmt::format("{:.1f}% of prompt tokens read, {} blocks written, {} read in {} "
                     "fetches of {} on average",
                     summary.fetched_rate * 100, summary.blocks_offloaded, summary.blocks_fetched,
                     summary.num_kv_fetches, time_text(summary.fetch_s)));
  }
  line("in vain",
       fmt::format("{} preemptions, {} of them to files, {} tokens computed again, {} thrown away",
                   summary.num_preemptions, summary.num_preemptions_by_swap,
                   summary.tokens_recomputed, summary.tokens_discarded));
  if (summary.draft_tokens > 0) {
    line("drafts", fmt::format("{} computed, {} of them right", summary.draft_tokens,
                               summary.draft_tokens_accepted));
  }
  if (summary.usd) {
    line("cost", fmt::format("{:.4f} USD, {:.3f} a million output tokens", *summary.usd,
                             summary.usd_per_million_output.value_or(0)));
  }
  return text;
}

}  // namespace quire
