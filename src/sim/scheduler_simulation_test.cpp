// The real scheduler against random traffic in virtual time. Every trace is a function of its seed:
// QUIRE_SIM_SEED=n replays trace n alone.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "core/scheduler.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"
#include "sim/workload.h"

namespace quire {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kNumTraces = 10'000;

// What happened over all traces: shows that the traffic reaches the states it is meant to.
struct Coverage {
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t recomputed = 0;
  std::int64_t finished_stop = 0;
  std::int64_t finished_length = 0;
  std::array<std::int64_t, kNumRejectCauses> rejected{};
  std::array<std::int64_t, kNumWaitCauses> waited{};
  // Aborts by state of the request, outside a step and while one was in flight.
  std::array<std::array<std::int64_t, 2>, 3> aborted{};
};

struct TraceConfig {
  SchedulerConfig scheduler;
  WorkloadConfig workload;
};

TraceConfig random_trace(std::uint64_t seed) {
  RandomStream random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.between(low, high));
  };
  TraceConfig trace;
  SchedulerConfig& s = trace.scheduler;
  s.block_size = pick(1, 32);
  s.max_model_len = pick(2, 120);
  s.max_num_seqs = random.chance(0.1) ? 1 : pick(2, 10);
  s.enable_chunked_prefill = random.chance(0.8);
  s.max_num_batched_tokens = s.enable_chunked_prefill
                                 ? pick(1, 64)
                                 : pick(s.max_model_len, std::int64_t{2} * s.max_model_len);
  s.max_queued = random.chance(0.1) ? pick(1, 4) : 64;
  // From a pool that refuses some requests to one where nothing is ever preempted.
  const auto blocks_of_longest = ceil_div(s.max_model_len, s.block_size);
  s.num_blocks = random.chance(0.1)
                     ? pick(1, blocks_of_longest)
                     : pick(blocks_of_longest, random.between(1, 4) * blocks_of_longest);
  WorkloadConfig& w = trace.workload;
  w.seed = seed;
  w.vocab_size = pick(2, 200);
  w.num_requests = pick(1, 20);
  w.mean_interarrival = random.chance(0.3) ? 0us : Duration(random.between(1, 5000) * 1000);
  w.prompt_tokens = {random.chance(0.05) ? 0 : 1,
                     random.between(1, s.max_model_len + (random.chance(0.1) ? 5 : -1))};
  w.max_tokens = {1, random.between(1, s.max_model_len)};
  w.num_stop_token_ids = {0, random.chance(0.3) ? 3 : 0};
  w.ignore_eos_probability = 0.3;
  w.abort_probability = random.chance(0.5) ? 0.4 : 0.0;
  w.mean_time_to_abort = Duration(random.between(1, 20000) * 1000);
  for (std::int32_t i = pick(0, 2); i > 0; --i) {
    s.eos_token_ids.push_back(pick(0, w.vocab_size - 1));
  }
  return trace;
}

struct Expected {
  std::vector<TokenId> output;
  FinishReason reason = FinishReason::kLength;
};

// What the request gives when it is alone, without a scheduler.
Expected solo_run(const AddRequest& request, const SchedulerConfig& config,
                  std::int32_t vocab_size) {
  const SamplingParams& params = *request.sampling_params;
  std::uint64_t history = 0;
  for (const TokenId id : request.prompt_token_ids) history = extend_history(history, id);
  const auto contains = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  Expected expected;
  const std::int64_t room = config.max_model_len - std::ssize(request.prompt_token_ids);
  while (std::ssize(expected.output) < std::min(params.max_tokens, room)) {
    const TokenId id = simulated_token(history, vocab_size);
    history = extend_history(history, id);
    expected.output.push_back(id);
    if (contains(params.stop_token_ids, id) ||
        (!params.ignore_eos && contains(config.eos_token_ids, id))) {
      expected.reason = FinishReason::kStop;
      break;
    }
  }
  return expected;
}

// One trace, from the first arrival to an empty scheduler. Functions return an empty string, or
// what went wrong.
class Simulation {
 public:
  Simulation(std::uint64_t seed, Coverage& coverage)
      : coverage_(coverage),
        trace_(random_trace(seed)),
        workload_(make_workload(trace_.workload)),
        random_(~seed),
        scheduler_(trace_.scheduler),
        executor_({trace_.scheduler.block_size, trace_.scheduler.num_blocks,
                   trace_.workload.vocab_size, 200us, 10us},
                  clock_) {}

  std::string run() {
    while (next_arrival_ < workload_.size() || scheduler_.has_work()) {
      if (!scheduler_.has_work()) clock_.advance_to(workload_[next_arrival_].arrival);
      if (auto error = deliver_commands(false); !error.empty()) return error;
      auto plan = scheduler_.schedule(clock_.now());
      if (auto error = check(plan.status()); !error.empty()) return error;
      if (plan->empty()) {
        if (scheduler_.has_work()) return "an empty plan though there is work";
        continue;
      }
      if (scheduler_.schedule(clock_.now()).ok()) return "two steps are in flight";
      if (auto error = note_plan(*plan); !error.empty()) return error;
      const auto result = executor_.execute(*plan);
      if (!result.ok()) return result.status().message();
      if (auto error = compare_tables(); !error.empty()) return error;
      // Sometimes the engine drains its commands while the step runs, sometimes not.
      if (random_.chance(0.5)) {
        if (auto error = deliver_commands(true); !error.empty()) return error;
      }
      auto outputs = scheduler_.update(*result, clock_.now());
      if (auto error = check(outputs.status()); !error.empty()) return error;
      for (RequestStepOutput& output : *outputs) {
        if (auto error = note_output(output); !error.empty()) return error;
      }
      ++coverage_.steps;
    }
    return check_end();
  }

  const std::string& plans() const { return plans_; }

 private:
  struct Live {
    Expected expected;
    std::vector<TokenId> received;
    std::int64_t num_prompt_tokens = 0;
    std::int64_t first_step = 0;
    std::vector<RequestId> ahead;  // requests that were there when it came
  };

  std::string check(const Status& status) const {
    return status.ok() ? scheduler_.check_invariants().message() : status.message();
  }

  std::string deliver_commands(bool in_flight) {
    for (; next_arrival_ < workload_.size() && workload_[next_arrival_].arrival <= clock_.now();
         ++next_arrival_) {
      if (auto error = add(workload_[next_arrival_]); !error.empty()) return error;
    }
    for (auto due = aborts_.begin(); due != aborts_.end() && due->first <= clock_.now();) {
      if (auto error = abort(due->second, in_flight); !error.empty()) return error;
      due = aborts_.erase(due);
    }
    return abort_preempted(in_flight);
  }

  // Being preempted is rare and short: clients that go away at random would seldom meet it.
  std::string abort_preempted(bool in_flight) {
    if (trace_.workload.abort_probability == 0) return {};
    for (const auto& [id, live] : live_) {
      if (scheduler_.find(id) == nullptr) return fmt::format("request {} is lost", id);
      if (scheduler_.find(id)->state() == RequestState::kPreempted && random_.chance(0.02)) {
        return abort(id, in_flight);
      }
    }
    return {};
  }

  std::string add(const WorkloadRequest& arrival) {
    const AddRequest& request = arrival.request;
    const SchedulerConfig& config = scheduler_.config();
    const std::int64_t num_prompt = std::ssize(request.prompt_token_ids);
    const std::int64_t longest = std::min(num_prompt + request.sampling_params->max_tokens,
                                          std::int64_t{config.max_model_len}) -
                                 1;
    const bool acceptable = num_prompt > 0 && num_prompt < config.max_model_len &&
                            longest <= std::int64_t{config.num_blocks} * config.block_size &&
                            scheduler_.stats().num_waiting < config.max_queued;
    const Status status = scheduler_.add(request, clock_.now());
    if (status.ok() != acceptable) {
      return fmt::format("request {}: admission is wrong: {}", request.request_id,
                         status.message());
    }
    if (!acceptable) return check({});
    Live live;
    live.expected = solo_run(request, config, trace_.workload.vocab_size);
    live.num_prompt_tokens = num_prompt;
    live.first_step = scheduler_.stats().num_steps;
    for (const auto& [id, other] : live_) live.ahead.push_back(id);
    live_.emplace(request.request_id, std::move(live));
    if (arrival.abort) aborts_.emplace(*arrival.abort, request.request_id);
    if (random_.chance(0.05) && scheduler_.add(request, clock_.now()).ok()) {
      return "the same id was accepted twice";
    }
    return check({});
  }

  std::string abort(RequestId id, bool in_flight) {
    const Request* request = scheduler_.find(id);
    if ((request == nullptr) == live_.contains(id)) {
      return fmt::format("request {} is lost", id);
    }
    if (request != nullptr) {
      ++coverage_.aborted[static_cast<std::size_t>(request->state())][in_flight ? 1 : 0];
    }
    const auto aborted = scheduler_.abort(id, clock_.now());
    if (aborted == nullptr) return live_.contains(id) ? "an abort was ignored" : "";
    if (scheduler_.abort(id, clock_.now()) != nullptr) return "a request was aborted twice";
    if (auto error = note_end(*aborted); !error.empty()) return error;
    return check({});
  }

  std::string note_plan(const SchedulerOutput& plan) {
    plans_ += fmt::format("{}:", plan.step_id);
    for (const ScheduledRequest& each : plan.scheduled) {
      plans_ += fmt::format("{},{},{},{};", each.request_id, each.num_computed_tokens,
                            each.num_scheduled_tokens, fmt::join(each.new_block_ids, "+"));
    }
    if (plan.total_num_scheduled_tokens > scheduler_.config().max_num_batched_tokens ||
        std::ssize(plan.scheduled) > scheduler_.config().max_num_seqs) {
      return fmt::format("step {} exceeds the budget", plan.step_id);
    }
    // The earliest request always advances.
    if (!live_.empty() &&
        (plan.scheduled.empty() || plan.scheduled.front().request_id != live_.begin()->first)) {
      return fmt::format("step {} leaves out the earliest request", plan.step_id);
    }
    return {};
  }

  std::string compare_tables() const {
    for (const auto& [id, live] : live_) {
      const BlockTable* table = scheduler_.find_blocks(id);
      const std::vector<BlockId>* copy = executor_.find_block_ids(id);
      if (table == nullptr ? copy != nullptr : copy == nullptr || table->block_ids() != *copy) {
        return fmt::format("request {}: scheduler and executor have different block tables", id);
      }
    }
    return {};
  }

  std::string note_output(RequestStepOutput& output) {
    const auto found = live_.find(output.request_id);
    if (found == live_.end()) return fmt::format("a token for {}, which ended", output.request_id);
    found->second.received.push_back(output.token_id);
    return output.finished == nullptr ? "" : note_end(*output.finished);
  }

  // A request ended: with the tokens of its solo run, or a prefix if aborted, and in time.
  std::string note_end(const Request& request) {
    const Live live = live_.at(request.id());
    live_.erase(request.id());
    num_outputs_[request.id()] = {live.num_prompt_tokens, std::ssize(live.received)};
    const auto& expected = live.expected.output;
    const auto output = request.output_token_ids();
    const bool aborted = request.finish_reason() == FinishReason::kAbort;
    const bool prefix = output.size() <= expected.size() &&
                        std::equal(output.begin(), output.end(), expected.begin());
    if (!prefix || (!aborted && (output.size() != expected.size() ||
                                 request.finish_reason() != live.expected.reason))) {
      return fmt::format("request {} gave [{}], alone it gives [{}]", request.id(),
                         fmt::join(output, " "), fmt::join(expected, " "));
    }
    if (!std::equal(output.begin(), output.end(), live.received.begin(), live.received.end())) {
      return fmt::format("request {}: the tokens handed out are not its tokens", request.id());
    }
    if (auto error = check_times(request); !error.empty()) return error;
    coverage_.preemptions += request.num_preemptions();
    coverage_.recomputed += request.num_recomputed_tokens();
    coverage_.finished_stop += request.finish_reason() == FinishReason::kStop ? 1 : 0;
    coverage_.finished_length += request.finish_reason() == FinishReason::kLength ? 1 : 0;
    return aborted ? "" : check_starvation(request.id(), live);
  }

  std::string check_times(const Request& request) {
    Duration waited{};
    for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
      const Duration total = request.timeline().total(static_cast<WaitCause>(i), clock_.now());
      coverage_.waited[i] += total > Duration::zero() ? 1 : 0;
      waited += total;
    }
    const Duration life = *request.finish_time() - request.arrival();
    if (waited > life) return fmt::format("request {} waited longer than it lived", request.id());
    if (request.num_preemptions() == 0 && request.num_recomputed_tokens() != 0) {
      return fmt::format("request {} recomputed without a preemption", request.id());
    }
    if (!request.first_scheduled() && waited != life) {
      return fmt::format("request {} never ran, and not all of its life is explained",
                         request.id());
    }
    return {};
  }

  // In every step the earliest request either computes max_num_batched_tokens (or all that it
  // knows, where prompts are not cut) or samples. So a request ends after at most that many steps
  // for itself and for each of those that were there before it.
  std::string check_starvation(RequestId id, const Live& live) {
    const auto cost = [&](std::int64_t num_prompt, std::int64_t num_output) {
      return ceil_div(num_prompt + num_output, scheduler_.config().max_num_batched_tokens) +
             num_output;
    };
    std::int64_t bound = cost(live.num_prompt_tokens, std::ssize(live.received));
    for (const RequestId ahead : live.ahead) {
      const auto other = live_.find(ahead);
      const auto [num_prompt, num_output] =
          other == live_.end()
              ? num_outputs_.at(ahead)
              : std::pair<std::int64_t, std::int64_t>(other->second.num_prompt_tokens,
                                                      std::ssize(other->second.received));
      bound += cost(num_prompt, num_output);
    }
    // The step in flight when it came cannot include it.
    const std::int64_t steps = scheduler_.stats().num_steps - live.first_step;
    if (steps <= bound + 1) return {};
    return fmt::format("request {} took {} steps, at most {} are explained", id, steps, bound + 1);
  }

  std::string check_end() const {
    const SchedulerStats stats = scheduler_.stats();
    for (std::size_t i = 0; i < kNumRejectCauses; ++i)
      coverage_.rejected[i] += stats.num_rejected[i];
    if (!live_.empty()) return fmt::format("request {} never ended", live_.begin()->first);
    if (stats.blocks_used != 0 || stats.blocks_leaked != 0 || stats.prompt_tokens_pending != 0 ||
        stats.num_waiting != 0 || stats.num_running != 0) {
      return "the scheduler is not empty at the end";
    }
    if (executor_.num_requests() != 0) return "the executor still knows a request";
    if (scheduler_.next_deadline()) return "an idle scheduler has a deadline";
    return {};
  }

  Coverage& coverage_;
  const TraceConfig trace_;
  const std::vector<WorkloadRequest> workload_;
  RandomStream random_;
  VirtualClock clock_;
  Scheduler scheduler_;
  SimulatedExecutor executor_;
  std::size_t next_arrival_ = 0;
  std::multimap<Instant, RequestId> aborts_;
  std::map<RequestId, Live> live_;  // ids count arrivals, so the first is the earliest
  std::map<RequestId, std::pair<std::int64_t, std::int64_t>> num_outputs_;  // of those that ended
  std::string plans_;
};

void expect_trace_passes(std::uint64_t seed, Coverage& coverage) {
  const std::string error = Simulation(seed, coverage).run();
  ASSERT_EQ(error, "") << "replay with QUIRE_SIM_SEED=" << seed;
}

TEST(SchedulerSimulation, RandomTraces) {
  Coverage coverage;
  if (const char* seed = std::getenv("QUIRE_SIM_SEED")) {
    expect_trace_passes(std::strtoull(seed, nullptr, 10), coverage);
    return;
  }
  for (std::uint64_t seed = 1; seed <= kNumTraces && !HasFatalFailure(); ++seed) {
    expect_trace_passes(seed, coverage);
  }
  if (HasFatalFailure()) return;
  // About half of what the seeds gave when this was written.
  EXPECT_GT(coverage.steps, 400'000);
  EXPECT_GT(coverage.preemptions, 4000);
  EXPECT_GT(coverage.recomputed, 80'000);
  EXPECT_GT(coverage.finished_stop, 7000);
  EXPECT_GT(coverage.finished_length, 35'000);
  for (const std::int64_t count : coverage.rejected) EXPECT_GT(count, 150);
  for (const std::int64_t count : coverage.waited) EXPECT_GT(count, 3000);
  for (const auto& state : coverage.aborted) {
    for (const std::int64_t count : state) EXPECT_GT(count, 150);
  }
}

TEST(SchedulerSimulation, TheSameTraceGivesTheSamePlans) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Simulation first(seed, coverage);
    Simulation second(seed, coverage);
    ASSERT_EQ(first.run(), "");
    ASSERT_EQ(second.run(), "");
    ASSERT_EQ(first.plans(), second.plans()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
