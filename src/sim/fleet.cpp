#include "sim/fleet.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "sim/fleet_router.h"

namespace quire {
namespace {

// A prompt whose keys and values have come is in the cache at once, however long it is.
constexpr std::int32_t kMostReceivedTokens = 1 << 30;

// Of a request among the arrivals.
std::size_t index_of(RequestId request_id) { return static_cast<std::size_t>(request_id - 1); }

ServerConfig server_config(const FleetConfig& fleet, const Traffic& traffic, bool prefills,
                           bool receives) {
  ServerConfig config = {.scheduler = fleet.stage_scheduler(),
                         .pace = fleet.pace,
                         .make_pacer = fleet.make_pacer,
                         .tier = fleet.stage_tier(),
                         .output =
                             [&traffic](RequestId request_id, std::int64_t place) {
                               return output_of(traffic, index_of(request_id), place);
                             },
                         .step_time = fleet.step_time,
                         .drafts = {},
                         .receives_prompts = receives};
  if (!prefills) config.drafts = fleet.drafts;
  if (receives) {
    config.scheduler.max_num_batched_tokens = kMostReceivedTokens;
    config.scheduler.kv_tier = false;
  }
  return config;
}

class Fleet {
 public:
  Fleet(const FleetConfig& config, const Traffic& traffic)
      : config_(config),
        traffic_(traffic),
        first_(server_config(config, traffic, splits(), false)),
        second_(server_config(config, traffic, false, true)) {
    pipelines_.reserve(static_cast<std::size_t>(config.num_servers));
    std::vector<SimulatedServer*> takes;
    std::vector<SimulatedServer*> continues;
    for (int i = 0; i < config.num_servers; ++i) {
      const bool second = splits() && i >= config.num_prefill_servers;
      pipelines_.emplace_back(config.pipeline_stages);
      for (int stage = 0; stage < config.pipeline_stages; ++stage) {
        schedulers_.push_back(
            std::make_unique<SimulatedServer>(second ? second_ : first_, pipelines_.back()));
        (second ? continues : takes).push_back(schedulers_.back().get());
      }
    }
    router_.emplace(config.router, std::move(takes));
    if (splits()) second_router_.emplace(RouterPolicy::kLeastLoaded, std::move(continues));
    result_.requests.reserve(traffic.arrivals.size());
  }

  Result<FleetResult> run() {
    for (std::uint64_t event = 0;; ++event) {
      constexpr std::uint64_t kTellEvery = 1024;
      if (config_.progress && event % kTellEvery == 0) config_.progress(result_.requests.size());
      const Instant now = next_event();
      if (now == kNoEvent) break;
      take_arrivals(now);
      take_handed_over(now);
      for (std::size_t i = 0; i < schedulers_.size(); ++i) {
        if (schedulers_[i]->next_event() > now) continue;
        ended_.clear();
        QUIRE_RETURN_IF_ERROR(schedulers_[i]->advance(now, totals_, ended_));
        for (const auto& request : ended_) end(*request, is_prefill(i), now);
      }
    }
    return finish();
  }

 private:
  // What the first server gave of a request that another continues.
  struct Begun {
    Instant first_token{};
    std::int32_t num_cached_tokens = 0;
    std::int32_t num_preemptions = 0;
  };

  bool splits() const { return config_.num_prefill_servers > 0; }
  std::size_t server_of(std::size_t scheduler) const {
    return scheduler / static_cast<std::size_t>(config_.pipeline_stages);
  }
  bool is_prefill(std::size_t scheduler) const {
    return server_of(scheduler) < static_cast<std::size_t>(config_.num_prefill_servers);
  }

  Instant next_event() const {
    Instant now = next_ < traffic_.arrivals.size() ? traffic_.arrivals[next_].time : kNoEvent;
    if (!handed_over_.empty()) now = std::min(now, handed_over_.begin()->first);
    for (const auto& scheduler : schedulers_) now = std::min(now, scheduler->next_event());
    return now;
  }

  AddRequest request_of(std::size_t index, std::int32_t max_tokens) {
    std::shared_ptr<const SamplingParams>& params = params_[max_tokens];
    if (params == nullptr) {
      SamplingParams made;
      made.max_tokens = max_tokens;
      made.ignore_eos = true;
      made.temperature = 0;
      params = std::make_shared<const SamplingParams>(std::move(made));
    }
    AddRequest request;
    request.request_id = index + 1;
    request.prompt_token_ids = prompt_of(traffic_, index);
    request.sampling_params = params;
    const Arrival& arrival = traffic_.arrivals[index];
    request.priority = arrival.priority;
    request.user = arrival.user;
    request.deadline = arrival.deadline;
    request.cache_scope = arrival.cache_scope;
    return request;
  }

  void take_arrivals(Instant now) {
    for (; next_ < traffic_.arrivals.size() && traffic_.arrivals[next_].time <= now; ++next_) {
      const Arrival& arrival = traffic_.arrivals[next_];
      const std::int32_t max_tokens = splits() ? 1 : arrival.output_len;
      router_->choose(arrival).add(request_of(next_, max_tokens), now);
    }
  }

  void take_handed_over(Instant now) {
    while (!handed_over_.empty() && handed_over_.begin()->first <= now) {
      const std::size_t index = handed_over_.begin()->second;
      handed_over_.erase(handed_over_.begin());
      const Arrival& arrival = traffic_.arrivals[index];
      AddRequest request = request_of(index, arrival.output_len - 1);
      request.prompt_token_ids.push_back(output_of(traffic_, index, arrival.input_len));
      second_router_->choose(arrival).add(request, now);
    }
  }

  void end(const Request& request, bool prefill, Instant now) {
    const std::size_t index = index_of(request.id());
    const Arrival& arrival = traffic_.arrivals[index];
    SimulatedRequest ended = {.arrival = arrival.time,
                              .first_token = request.first_token().value_or(now),
                              .end = now,
                              .input_len = arrival.input_len,
                              .output_len = arrival.output_len,
                              .num_cached_tokens = request.num_cached_tokens(),
                              .num_preemptions = request.num_preemptions()};
    if (prefill && arrival.output_len > 1) {
      begun_[index] = {.first_token = ended.first_token,
                       .num_cached_tokens = ended.num_cached_tokens,
                       .num_preemptions = ended.num_preemptions};
      handed_over_.emplace(now + config_.transfer_time(arrival.input_len), index);
      return;
    }
    if (const auto begun = begun_.find(index); begun != begun_.end()) {
      ended.first_token = begun->second.first_token;
      ended.num_cached_tokens = begun->second.num_cached_tokens;
      ended.num_preemptions += begun->second.num_preemptions;
      begun_.erase(begun);
    }
    result_.requests.push_back(ended);
    result_.duration = std::max(result_.duration, Duration(now));
  }

  Result<FleetResult> finish() {
    result_.server_requests.resize(static_cast<std::size_t>(config_.num_servers));
    for (std::size_t i = 0; i < schedulers_.size(); ++i) {
      const Scheduler& scheduler = schedulers_[i]->scheduler();
      QUIRE_RETURN_IF_ERROR(scheduler.check_invariants());
      add(scheduler.stats(), splits() && !is_prefill(i));
      result_.fetch_time += schedulers_[i]->fetch_time();
      result_.server_requests[server_of(i)] += scheduler.stats().num_added;
    }
    result_.take(totals_);
    return std::move(result_);
  }

  // `second`: of a server whose prompts another has computed.
  void add(const SchedulerStats& stats, bool second) {
    for (std::size_t i = 0; i < kNumRejectCauses; ++i) {
      result_.num_rejected[i] += stats.num_rejected[i];
    }
    result_.num_preemptions += stats.num_preemptions;
    result_.num_preemptions_by_swap += stats.num_preemptions_by_swap;
    result_.tokens_recomputed += stats.tokens_recomputed;
    result_.tokens_discarded += stats.tokens_discarded;
    result_.output_tokens += stats.output_tokens_sampled;
    result_.num_kv_fetches += stats.num_kv_fetches;
    result_.blocks_fetched += stats.blocks_fetched;
    result_.blocks_offloaded += stats.blocks_offloaded;
    result_.prompt_tokens_fetched += stats.external_prefix_cache_hits;
    result_.draft_tokens += stats.draft_tokens;
    result_.draft_tokens_accepted += stats.draft_tokens_accepted;
    if (second) return;
    result_.prompt_tokens_computed += stats.prompt_tokens_computed;
    result_.prompt_tokens_cached += stats.prompt_tokens_cached;
    result_.prefix_cache_queries += stats.prefix_cache_queries;
    result_.prefix_cache_hits += stats.prefix_cache_hits;
  }

  const FleetConfig& config_;
  const Traffic& traffic_;
  const ServerConfig first_;
  const ServerConfig second_;  // of those that continue
  std::vector<Pipeline> pipelines_;
  std::vector<std::unique_ptr<SimulatedServer>> schedulers_;  // stages of a server together
  std::optional<FleetRouter> router_;
  std::optional<FleetRouter> second_router_;
  std::unordered_map<std::int32_t, std::shared_ptr<const SamplingParams>> params_;  // by max_tokens
  std::size_t next_ = 0;                                                            // arrival
  std::multimap<Instant, std::size_t> handed_over_;  // by when they have come
  std::unordered_map<std::size_t, Begun> begun_;
  SimulatedServer::Ended ended_;
  StepTotals totals_;
  FleetResult result_;
};

}  // namespace

SchedulerConfig FleetConfig::stage_scheduler() const {
  SchedulerConfig part = scheduler;
  part.num_blocks /= pipeline_stages;
  part.max_num_seqs =
      static_cast<std::int32_t>(ceil_div(part.max_num_seqs, std::int32_t{pipeline_stages}));
  part.kv_tier = stage_tier().max_blocks > 0;
  return part;
}

SimulatedTierConfig FleetConfig::stage_tier() const {
  SimulatedTierConfig part = tier;
  part.max_blocks /= pipeline_stages;
  return part;
}

void FleetResult::take(const StepTotals& totals) {
  busy = totals.busy;
  longest_step = totals.longest_step;
  num_steps = totals.num_steps;
  const double seconds = to_seconds(totals.time);
  if (seconds <= 0) return;
  running = totals.running / seconds;
  kv_used = totals.kv_used / seconds;
  kv_waste = totals.kv_waste / seconds;
}

Status FleetConfig::validate() const {
  if (num_prefill_servers > 0 && num_prefill_servers >= num_servers) {
    return Status::invalid_argument(
        fmt::format("{} of {} servers compute prompts alone, and none is left to go on with them",
                    num_prefill_servers, num_servers),
        "lower --prefill-replicas or raise --replicas");
  }
  if (drafts.any() && scheduler.batching == Batching::kStatic) {
    return Status::invalid_argument("static batches take no drafts",
                                    "use another --batching, or no --num-speculative-tokens");
  }
  if (drafts.any() && std::ranges::any_of(scheduler.kv_groups, &KvGroup::state)) {
    return Status::invalid_argument("a model with states of fixed size takes no drafts",
                                    "leave out --num-speculative-tokens");
  }
  return stage_scheduler().validate();
}

Result<FleetResult> simulate_fleet(const FleetConfig& config, const Traffic& traffic) {
  QUIRE_RETURN_IF_ERROR(config.validate());
  return Fleet(config, traffic).run();
}

}  // namespace quire
