#include "sim/fleet.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/random.h"

namespace quire {
namespace {

constexpr Instant kNever = Instant(std::numeric_limits<Instant::rep>::max());
constexpr std::uint64_t kOutputTokens = 0x4F5554;
constexpr std::size_t kMaxRemembered = 1U << 20;  // pieces that the router knows a server of

// What servers measure together.
struct Totals {
  FleetResult result;
  double weighted_running = 0;  // times seconds
  double weighted_used = 0;
  double weighted_waste = 0;
};

class SimulatedServer {
 public:
  explicit SimulatedServer(const FleetConfig& config)
      : config_(config), scheduler_(config.scheduler) {}

  std::size_t load() const { return scheduler_.running().size() + scheduler_.waiting().size(); }
  Instant next_event() const { return in_flight_ ? end_ : wakes_; }

  void add(const AddRequest& request, Instant now) {
    // A refusal is counted by its cause.
    if (!scheduler_.add(request, now).ok()) return;
    wakes_ = now;
  }

  // The step that ends now, if one does, and the next.
  Status advance(Instant now, Totals& totals) {
    if (in_flight_) {
      if (end_ > now) return {};
      QUIRE_RETURN_IF_ERROR(end_step(now, totals));
    }
    QUIRE_RETURN_IF_ERROR(scheduler_.schedule(now, plan_));
    if (plan_.empty()) {
      const auto deadline = scheduler_.next_deadline();
      wakes_ = deadline ? *deadline : kNever;
      if (wakes_ <= now) return Status::internal("a scheduler with work plans nothing");
      return {};
    }
    in_flight_ = true;
    end_ = now;
    if (plan_.scheduled.empty()) return {};  // only says who has gone
    const Duration time = std::max(config_.step_time(plan_), Duration(1));
    end_ = now + time;
    measure(time, totals);
    return {};
  }

  Status finish(Totals& totals) const {
    QUIRE_RETURN_IF_ERROR(scheduler_.check_invariants());
    const SchedulerStats stats = scheduler_.stats();
    FleetResult& result = totals.result;
    for (std::size_t i = 0; i < kNumRejectCauses; ++i) {
      result.num_rejected[i] += stats.num_rejected[i];
    }
    result.num_preemptions += stats.num_preemptions;
    result.tokens_recomputed += stats.tokens_recomputed;
    result.tokens_discarded += stats.tokens_discarded;
    result.prompt_tokens_computed += stats.prompt_tokens_computed;
    result.prompt_tokens_cached += stats.prompt_tokens_cached;
    result.output_tokens += stats.output_tokens_sampled;
    result.prefix_cache_queries += stats.prefix_cache_queries;
    result.prefix_cache_hits += stats.prefix_cache_hits;
    result.server_requests.push_back(stats.num_added);
    return {};
  }

 private:
  Status end_step(Instant now, Totals& totals) {
    in_flight_ = false;
    output_.clear();
    output_.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use != RowUse::kTokens) continue;
      const auto position =
          static_cast<std::uint64_t>(each.num_computed_tokens + each.num_scheduled_tokens);
      const auto token = static_cast<TokenId>(
          random_bits(mix64(each.request_id ^ kOutputTokens), position) % (1U << 20));
      output_.sampled.push_back({.request_id = each.request_id, .token_id = token});
    }
    QUIRE_RETURN_IF_ERROR(scheduler_.update(output_, now, outputs_));
    for (const RequestStepOutput& given : outputs_) {
      if (given.finished == nullptr) continue;
      const Request& request = *given.finished;
      totals.result.requests.push_back({.arrival = request.arrival(),
                                        .first_token = request.first_token().value_or(now),
                                        .end = request.finish_time().value_or(now),
                                        .input_len = request.num_prompt_tokens(),
                                        .output_len = request.num_output_tokens(),
                                        .num_cached_tokens = request.num_cached_tokens(),
                                        .num_preemptions = request.num_preemptions()});
      totals.result.duration = std::max(totals.result.duration, Duration(now));
    }
    return {};
  }

  void measure(Duration time, Totals& totals) {
    const double seconds = to_seconds(time);
    const std::int64_t block_size = config_.scheduler.block_size;
    std::int64_t tokens = 0;
    std::int64_t slots = 0;
    bool decodes = false;
    for (const ScheduledRequest& each : plan_.scheduled) {
      const std::int64_t held = std::int64_t{each.num_computed_tokens} + each.num_scheduled_tokens;
      tokens += held;
      slots += ceil_div(held, block_size) * block_size;
      decodes = decodes || (each.use == RowUse::kTokens && each.num_scheduled_tokens == 1);
    }
    if (decodes) totals.result.longest_step = std::max(totals.result.longest_step, time);
    totals.result.busy += time;
    ++totals.result.num_steps;
    totals.weighted_running += seconds * static_cast<double>(scheduler_.running().size());
    const SchedulerStats stats = scheduler_.stats();
    totals.weighted_used +=
        seconds * static_cast<double>(stats.blocks_used) / static_cast<double>(stats.blocks_total);
    totals.weighted_waste +=
        seconds * (1 - static_cast<double>(tokens) / static_cast<double>(slots));
  }

  const FleetConfig& config_;
  Scheduler scheduler_;
  SchedulerOutput plan_;
  ModelRunnerOutput output_;
  std::vector<RequestStepOutput> outputs_;
  bool in_flight_ = false;
  Instant end_{};           // of the step in flight
  Instant wakes_ = kNever;  // when there is something to plan
};

class Router {
 public:
  Router(RouterPolicy policy, std::vector<std::unique_ptr<SimulatedServer>>& servers)
      : policy_(policy), servers_(servers) {}

  std::size_t choose(const Arrival& arrival) {
    if (policy_ == RouterPolicy::kRoundRobin) return next_++ % servers_.size();
    const std::size_t least = least_loaded();
    if (policy_ == RouterPolicy::kLeastLoaded) return least;
    std::size_t chosen = least;
    for (auto piece = arrival.pieces.rbegin(); piece != arrival.pieces.rend(); ++piece) {
      const auto known = server_of_.find(*piece);
      if (known == server_of_.end()) continue;
      constexpr std::size_t kFewMore = 8;
      if (servers_[known->second]->load() <= 2 * servers_[least]->load() + kFewMore) {
        chosen = known->second;
      }
      break;
    }
    if (server_of_.size() > kMaxRemembered) server_of_.clear();
    for (const std::uint64_t piece : arrival.pieces) server_of_[piece] = chosen;
    return chosen;
  }

 private:
  std::size_t least_loaded() const {
    std::size_t least = 0;
    for (std::size_t i = 1; i < servers_.size(); ++i) {
      if (servers_[i]->load() < servers_[least]->load()) least = i;
    }
    return least;
  }

  RouterPolicy policy_;
  std::vector<std::unique_ptr<SimulatedServer>>& servers_;
  std::size_t next_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> server_of_;
};

AddRequest request_of(const Traffic& traffic, std::size_t index) {
  const Arrival& arrival = traffic.arrivals[index];
  SamplingParams params;
  params.max_tokens = arrival.output_len;
  params.ignore_eos = true;
  params.temperature = 0;
  AddRequest request;
  request.request_id = index + 1;
  request.prompt_token_ids = prompt_of(traffic, index);
  request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
  request.priority = arrival.priority;
  return request;
}

}  // namespace

Result<FleetResult> simulate_fleet(const FleetConfig& config, const Traffic& traffic) {
  QUIRE_RETURN_IF_ERROR(config.scheduler.validate());
  std::vector<std::unique_ptr<SimulatedServer>> servers;
  for (int i = 0; i < config.num_servers; ++i) {
    servers.push_back(std::make_unique<SimulatedServer>(config));
  }
  Router router(config.router, servers);
  Totals totals;
  totals.result.requests.reserve(traffic.arrivals.size());
  std::size_t next = 0;
  for (std::uint64_t event = 0;; ++event) {
    constexpr std::uint64_t kTellEvery = 1024;
    if (config.progress && event % kTellEvery == 0) config.progress(totals.result.requests.size());
    Instant now = next < traffic.arrivals.size() ? traffic.arrivals[next].time : kNever;
    for (const auto& server : servers) now = std::min(now, server->next_event());
    if (now == kNever) break;
    for (; next < traffic.arrivals.size() && traffic.arrivals[next].time <= now; ++next) {
      servers[router.choose(traffic.arrivals[next])]->add(request_of(traffic, next), now);
    }
    for (const auto& server : servers) {
      if (server->next_event() <= now) QUIRE_RETURN_IF_ERROR(server->advance(now, totals));
    }
  }
  for (const auto& server : servers) QUIRE_RETURN_IF_ERROR(server->finish(totals));
  FleetResult result = std::move(totals.result);
  const double busy = to_seconds(result.busy);
  if (busy > 0) {
    result.running = totals.weighted_running / busy;
    result.kv_used = totals.weighted_used / busy;
    result.kv_waste = totals.weighted_waste / busy;
  }
  return result;
}

}  // namespace quire
