// One random trace through the real scheduler in virtual time, with all laws checked after each
// step. For the tests of this folder.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/checked.h"
#include "core/scheduler.h"
#include "sim/account_law.h"
#include "sim/admission_law.h"
#include "sim/beam_law.h"
#include "sim/coverage.h"
#include "sim/earliest.h"
#include "sim/held_pages_law.h"
#include "sim/order_law.h"
#include "sim/pace_law.h"
#include "sim/pin_law.h"
#include "sim/plan_laws.h"
#include "sim/random_trace.h"
#include "sim/simulated_executor.h"
#include "sim/starvation_law.h"
#include "sim/table_law.h"
#include "sim/virtual_clock.h"
#include "sim/workload.h"

namespace quire {

// One trace, to an empty scheduler. Functions return an empty string, or what went wrong.
class Simulation {
 public:
  Simulation(std::uint64_t seed, std::int32_t max_steps_in_flight, bool groups, Coverage& coverage)
      : coverage_(coverage),
        trace_(groups ? random_trace_of_groups(seed) : random_trace(seed)),
        workload_(make_workload(trace_.workload)),
        random_(~seed),
        pace_random_(mix64(seed)),
        limited_(pace_random_.chance(0.5)),
        draft_random_(mix64(~seed)),
        drafts_(draft_random_.chance(limited_ ? 0.2 : 0.5)),
        scheduler_(with_steps_in_flight(trace_.scheduler, max_steps_in_flight)),
        executor_({.block_size = trace_.scheduler.block_size,
                   .num_blocks = trace_.scheduler.num_blocks,
                   .vocab_size = trace_.workload.vocab_size,
                   .step_time = std::chrono::microseconds(200),
                   .token_time = std::chrono::microseconds(10),
                   .num_eos_token_ids = trace_.scheduler.eos_token_ids.size(),
                   .kv_groups = trace_.scheduler.kv_groups,
                   .tier = trace_.tier},
                  clock_),
        plans_(static_cast<std::size_t>(max_steps_in_flight)) {}

  std::string run() {
    while (next_arrival_ < workload_.size() || scheduler_.has_work() || num_in_flight() > 0 ||
           scheduler_.num_fetches_in_flight() > 0) {
      if (!scheduler_.has_work() && num_in_flight() == 0) pass_time(std::nullopt);
      if (auto error = take_tier_report(); !error.empty()) return error;
      if (auto error = deliver_commands(num_in_flight() > 0); !error.empty()) return error;
      const std::optional<Instant> deadline = scheduler_.next_deadline();
      for (bool goes_on = true; goes_on && num_in_flight() < plans_.size();) {
        if (auto error = begin_step(goes_on); !error.empty()) return error;
      }
      if (num_in_flight() > 0) {
        if (auto error = end_step(); !error.empty()) return error;
      } else if (scheduler_.has_work()) {
        pass_time(deadline);
      }
    }
    pins_.let_go_of_all();
    return check_end();
  }

  std::uint64_t plans_hash() const { return plans_hash_; }

 private:
  // One output of a request.
  struct Live {
    SoloRun expected;
    std::vector<std::vector<TokenId>> beams;  // what a search must find; else empty
    std::vector<TokenId> received;
    std::int64_t num_prompt_tokens = 0;
    std::int32_t priority = 0;
    bool prompt_logprobs = false;
    bool pooling = false;
    std::int32_t num_prompt_logprobs = 0;  // that came so far
  };

  static SchedulerConfig with_steps_in_flight(SchedulerConfig config, std::int32_t count) {
    config.max_steps_in_flight = count;
    return config;
  }

  std::string check(const Status& status) const {
    return status.ok() ? scheduler_.check_invariants().message() : status.message();
  }

  // Nothing can be computed before `deadline`, unless something happens.
  void pass_time(std::optional<Instant> deadline) {
    std::optional<Instant> arrival;
    std::optional<Instant> abort;
    if (next_arrival_ < workload_.size()) arrival = workload_[next_arrival_].arrival;
    if (!aborts_.empty()) abort = aborts_.begin()->first;
    clock_.advance_to(*earliest({deadline, arrival, abort, executor_.next_fetch_end()}));
  }

  std::string take_tier_report() {
    if (!executor_.take_tier_report(tier_report_)) return {};
    scheduler_.take_in(tier_report_, clock_.now());
    return check({});
  }

  // None, or one that knows what the executor's steps take.
  StepPace random_pace() {
    StepPace pace;
    pace.max_step =
        pace_random_.chance(0.3) ? Duration::zero() : Duration(pace_random_.between(1, 700'000));
    pace.max_prompt_tokens = static_cast<std::int32_t>(pace_random_.between(1, 80));
    pace.cost = {.step = 200'000, .row = 10'000, .prompt_token = 10'000};
    pace.block_fetch = Duration(pace_random_.chance(0.5) ? pace_random_.between(1, 160'000) : 0);
    return pace;
  }

  std::size_t num_in_flight() const { return scheduler_.num_steps_in_flight(); }

  // `planned`: whether there was a step to begin.
  std::string begin_step(bool& planned) {
    const bool alone = num_in_flight() == 0;
    const std::optional<Instant> deadline = scheduler_.next_deadline();
    if (limited_ && pace_random_.chance(0.1)) scheduler_.set_pace(random_pace());
    SchedulerOutput& plan = plans_[num_begun_ % plans_.size()];
    plan_laws_.before_step();
    running_before_.clear();
    for (const Request* request : scheduler_.running()) {
      running_before_.emplace_back(request->id(), request->num_preemptions());
    }
    if (auto error = check(scheduler_.schedule(clock_.now(), plan)); !error.empty()) return error;
    planned = !plan.empty();
    const bool fetches = !planned && scheduler_.num_fetches_in_flight() > 0;
    if (fetches && scheduler_.running().empty() && scheduler_.next_deadline()) {
      return "nothing can be planned before a fetch has ended, and there is a deadline";
    }
    if (alone && !fetches && planned != (deadline && *deadline <= clock_.now())) {
      return "a plan comes when its deadline does, and not before";
    }
    if (!planned) return {};
    ++num_begun_;
    SchedulerOutput more;
    if (num_in_flight() == plans_.size() && scheduler_.schedule(clock_.now(), more).ok()) {
      return "more steps are in flight than may be";
    }
    if (auto error = check_plan(plan); !error.empty()) return error;
    if (const Status status = executor_.submit(plan); !status.ok()) return status.message();
    return table_error(scheduler_, executor_, plan);
  }

  std::string end_step() {
    Status status = executor_.sample({});
    if (status.ok()) status = executor_.collect(result_);
    if (!status.ok()) return status.message();
    // Sometimes the engine drains its commands while the step runs, sometimes not.
    if (random_.chance(0.5)) {
      if (auto error = deliver_commands(true); !error.empty()) return error;
    }
    if (auto error = check(scheduler_.update(result_, clock_.now(), outputs_)); !error.empty()) {
      return error;
    }
    note_prompt_logprobs();
    for (const RequestStepOutput& output : outputs_) {
      if (auto error = note_output(output); !error.empty()) return error;
    }
    for (const RequestStepOutput& output : outputs_) {
      if (output.finished == nullptr) continue;
      if (auto error = starvation_.check(output.request_id); !error.empty()) return error;
    }
    if (drafts_) propose();
    return {};
  }

  // Guesses at what comes next, most of them right.
  void propose() {
    for (const auto& [id, live] : live_) {
      if (draft_random_.chance(0.5)) continue;
      const auto expected = std::span<const TokenId>(live.expected.output_token_ids);
      scheduler_.propose(
          id, random_drafts(expected.subspan(live.received.size()), draft_random_).view());
    }
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
    pins_.let_go();
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
    AddRequest request = arrival.request;
    pins_.ask(request);
    const bool accepted = is_acceptable(scheduler_, request);
    const Status status = scheduler_.add(request, clock_.now());
    if (status.ok() != accepted) {
      return fmt::format("request {}: admission is wrong: {}", request.request_id,
                         status.message());
    }
    if (!accepted) return check({});
    pins_.arrive(request);
    const bool searches = request.sampling_params->is_beam_search();
    for (std::int32_t i = 0; i < (searches ? 1 : request.sampling_params->n); ++i) {
      const RequestId id = request.request_id + static_cast<RequestId>(i);
      Live& live = live_[id];
      if (searches) {
        live.beams = solo_beam_search(request, scheduler_.config(), trace_.workload.vocab_size);
      }
      live.expected = solo_run(request, i, scheduler_.config(), trace_.workload.vocab_size);
      live.num_prompt_tokens = std::ssize(request.prompt_token_ids);
      live.priority = request.priority;
      live.pooling = request.pooling != Pooling::kNone;
      live.prompt_logprobs = i == 0 && request.sampling_params->prompt_logprobs.has_value();
      starvation_.arrive(id, request.priority);
      plan_laws_.arrive(*scheduler_.find(id));
      if (arrival.abort && random_.chance(0.8)) aborts_.emplace(*arrival.abort, id);
    }
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

  std::string check_plan(const SchedulerOutput& plan) {
    ++coverage_.steps;
    coverage_.truncated_tables += std::ssize(plan.truncated_tables);
    coverage_.adopted_blocks += std::ssize(plan.adopted_blocks);
    for (const ScheduledRequest& each : plan.scheduled) coverage_.branched += each.num_branched;
    for (const ScheduledRequest& each : plan.scheduled) num_drafts_ += each.num_drafts;
    coverage_.copied_blocks += std::ssize(plan.block_copies);
    coverage_.offloaded_blocks += std::ssize(plan.block_stores);
    num_scheduled_tokens_ += plan.total_num_scheduled_tokens;
    const auto note = [&](auto value) {
      plans_hash_ = mix64(plans_hash_ ^ static_cast<std::uint64_t>(value));
    };
    for (const ScheduledRequest& each : plan.scheduled) {
      note(each.request_id);
      note(each.num_computed_tokens);
      note(each.num_scheduled_tokens);
    }
    for (const BlockId block_id : plan.new_block_ids) note(block_id);
    if (plan.total_num_scheduled_tokens > scheduler_.config().max_num_batched_tokens ||
        std::ssize(plan.scheduled) > scheduler_.config().max_num_seqs) {
      return fmt::format("step {} exceeds the budget", plan.step_id);
    }
    starvation_.plan(plan);
    if (auto error = pins_.check(); !error.empty()) return error;
    if (auto error = held_pages_error(scheduler_, plan, coverage_); !error.empty()) return error;
    const SchedulerOutput starts = without_beams_that_go_on(scheduler_, plan, running_before_);
    coverage_.partial_hits += num_partial_hits(scheduler_, starts);
    coverage_.beams += std::ssize(plan.new_requests) - std::ssize(starts.new_requests);
    if (auto error = pace_error(scheduler_, starts); !error.empty()) return error;
    if (auto error = plan_laws_.check(starts); !error.empty()) return error;
    std::map<RequestId, std::int32_t> priorities;
    for (const auto& [id, live] : live_) priorities.emplace(id, live.priority);
    return order_error(scheduler_, starts, priorities);
  }

  // As an engine collects them: positions that come again after a preemption count once.
  void note_prompt_logprobs() {
    for (const PromptToken& token : result_.prompt_tokens) {
      const auto found = live_.find(token.request_id);
      if (found == live_.end()) continue;
      if (token.position == found->second.num_prompt_logprobs + 1) {
        ++found->second.num_prompt_logprobs;
      }
    }
  }

  std::string note_output(const RequestStepOutput& output) {
    const auto found = live_.find(output.request_id);
    if (found == live_.end()) return fmt::format("a token for {}, which ended", output.request_id);
    Live& live = found->second;
    if (live.pooling != (output.pooled_index >= 0)) return "the wrong request is pooled";
    if (live.pooling) return note_pooled(output, live);
    if (!live.beams.empty()) {
      if (output.num_sampled > 0 || output.finished == nullptr) return "a search gives one output";
      return note_end(*output.finished);
    }
    const auto sampled = std::span(result_.sampled)
                             .subspan(static_cast<std::size_t>(output.first_sampled),
                                      static_cast<std::size_t>(output.num_sampled));
    for (const SampledToken& token : sampled) {
      if (token.request_id == output.request_id) continue;
      return fmt::format("request {} is given another's sampled token", output.request_id);
    }
    if (sampled.empty()) return fmt::format("request {} is given nothing", output.request_id);
    if (live.prompt_logprobs && live.num_prompt_logprobs != live.num_prompt_tokens - 1) {
      return fmt::format("request {} has {} log probabilities for {} prompt tokens",
                         output.request_id, live.num_prompt_logprobs, live.num_prompt_tokens);
    }
    coverage_.prompt_logprobs += live.prompt_logprobs && live.received.empty() ? 1 : 0;
    for (const SampledToken& token : sampled) live.received.push_back(token.token_id);
    coverage_.drafts_right += std::ssize(sampled) - 1;
    return output.finished == nullptr ? "" : note_end(*output.finished);
  }

  std::string note_pooled(const RequestStepOutput& output, const Live& live) {
    const PooledState& pooled = result_.pooled[static_cast<std::size_t>(output.pooled_index)];
    if (output.num_sampled > 0 || output.finished == nullptr ||
        pooled.request_id != output.request_id) {
      return fmt::format("request {} is not pooled as it should be", output.request_id);
    }
    for (std::size_t i = 0; i < pooled.size; ++i) {
      if (result_.hidden_states[pooled.first + i] !=
          simulated_state(live.expected.prompt_history, i)) {
        return fmt::format("request {} has another's hidden state", output.request_id);
      }
    }
    ++coverage_.pooled;
    coverage_.pooled_preempted += output.finished->num_preemptions() > 0 ? 1 : 0;
    return note_end(*output.finished);
  }

  // A request ended: with the tokens of its solo run, or a prefix if aborted, and in time.
  std::string note_end(const Request& request) {
    const Live live = std::move(live_.extract(request.id()).mapped());
    starvation_.end(request);
    plan_laws_.end(request);
    pins_.end(request);
    const bool aborted = request.finish_reason() == FinishReason::kAbort;
    if (!live.beams.empty()) {
      if (auto error = aborted ? "" : beam_error(request, live.beams); !error.empty()) return error;
      coverage_.searches += aborted ? 0 : 1;
      coverage_.searches_preempted += request.num_preemptions() > 0 ? 1 : 0;
      return note_account(request);
    }
    const auto& expected = live.expected.output_token_ids;
    const auto output = request.output_token_ids();
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
    return note_account(request);
  }

  std::string note_account(const Request& request) {
    if (auto error = check_account(request, scheduler_.config(), clock_.now()); !error.empty()) {
      return error;
    }
    note_ended(request, clock_.now(), coverage_);
    return {};
  }

  std::string check_end() const {
    const SchedulerStats stats = scheduler_.stats();
    for (std::size_t i = 0; i < kNumRejectCauses; ++i)
      coverage_.rejected[i] += stats.num_rejected[i];
    coverage_.drafts += num_drafts_;
    coverage_.swapped += stats.num_preemptions_by_swap;
    coverage_.forks += stats.num_forks;
    coverage_.cached += stats.prompt_tokens_cached;
    coverage_.discarded += stats.tokens_discarded;
    coverage_.fetched_blocks += stats.blocks_fetched;
    coverage_.lost_blocks += stats.blocks_fetch_failed;
    if (!live_.empty()) return fmt::format("request {} never ended", live_.begin()->first);
    if (stats.blocks_used != 0 || stats.blocks_leaked != 0 || stats.blocks_shared != 0 ||
        stats.prompt_tokens_pending != 0 || stats.num_waiting != 0 || stats.num_running != 0) {
      return "the scheduler is not empty at the end";
    }
    if (auto error = totals_error(stats, num_scheduled_tokens_, num_drafts_); !error.empty()) {
      return error;
    }
    if (executor_.num_requests() != 0) return "the executor still knows a request";
    if (scheduler_.next_deadline()) return "an idle scheduler has a deadline";
    return plan_laws_.check_end(stats);
  }

  Coverage& coverage_;
  const TraceConfig trace_;
  const std::vector<WorkloadRequest> workload_;
  RandomStream random_;
  RandomStream pace_random_;
  const bool limited_;  // the pace changes now and then
  RandomStream draft_random_;
  const bool drafts_;  // guesses are made
  VirtualClock clock_;
  Scheduler scheduler_;
  SimulatedExecutor executor_;
  std::vector<SchedulerOutput> plans_;  // these three are kept from step to step, as an engine does
  std::size_t num_begun_ = 0;
  std::vector<std::pair<RequestId, std::int32_t>> running_before_;
  ModelRunnerOutput result_;
  TierReport tier_report_;
  std::vector<RequestStepOutput> outputs_;
  std::size_t next_arrival_ = 0;
  std::multimap<Instant, RequestId> aborts_;
  std::map<RequestId, Live> live_;  // ids count arrivals
  StarvationLaw starvation_{scheduler_, limited_};
  PlanLaws plan_laws_{scheduler_};
  PinLaw pins_{trace_.workload.seed, scheduler_, coverage_};
  std::int64_t num_scheduled_tokens_ = 0;
  std::int64_t num_drafts_ = 0;
  std::uint64_t plans_hash_ = 0;
};

}  // namespace quire
