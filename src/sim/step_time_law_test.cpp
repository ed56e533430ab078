// What requests have of the time of steps, and the time in which nothing is computed for anybody,
// are all the time that passes: so their costs and that of idling are the price of the machine.
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/earliest.h"
#include "sim/random_trace.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"

namespace quire {
namespace step_time_law_test {

struct Times {
  Duration ended{};    // of requests that have ended
  Duration idle{};     // between steps
  Duration nobodys{};  // of steps whose requests had all gone
};

class TimedRun {
 public:
  TimedRun(std::uint64_t seed, std::int32_t max_steps_in_flight)
      : trace_(random_trace(seed)),
        workload_(make_workload(trace_.workload)),
        random_(~seed),
        scheduler_(ahead(trace_.scheduler, max_steps_in_flight)),
        executor_({.block_size = trace_.scheduler.block_size,
                   .num_blocks = trace_.scheduler.num_blocks,
                   .vocab_size = trace_.workload.vocab_size,
                   .step_time = Duration(200'003),
                   .token_time = Duration(10'007),
                   .num_eos_token_ids = trace_.scheduler.eos_token_ids.size(),
                   .tier = trace_.tier},
                  clock_),
        plans_(static_cast<std::size_t>(max_steps_in_flight)) {}

  std::string run(Times& times) {
    while (next_ < workload_.size() || scheduler_.has_work() || num_in_flight() > 0 ||
           scheduler_.num_fetches_in_flight() > 0) {
      if (!scheduler_.has_work() && num_in_flight() == 0) idle_until(std::nullopt);
      if (executor_.take_tier_report(tier_report_)) scheduler_.take_in(tier_report_, clock_.now());
      deliver();
      while (num_in_flight() < plans_.size()) {
        SchedulerOutput& plan = plans_[num_begun_ % plans_.size()];
        if (!scheduler_.schedule(clock_.now(), plan).ok()) return "schedule() failed";
        if (plan.empty()) break;
        ++num_begun_;
        if (!executor_.submit(plan).ok()) return "submit() failed";
      }
      if (num_in_flight() > 0) {
        if (auto error = end_step(); !error.empty()) return error;
      } else if (scheduler_.has_work()) {
        idle_until(scheduler_.next_deadline());
      }
      if (auto error = check(); !error.empty()) return error;
    }
    if (times_.ended.count() != scheduler_.stats().step_time_charged_ns) return "time is left";
    times.ended += times_.ended;
    times.idle += times_.idle;
    times.nobodys += times_.nobodys;
    return {};
  }

 private:
  static SchedulerConfig ahead(SchedulerConfig config, std::int32_t max_steps_in_flight) {
    config.max_steps_in_flight = max_steps_in_flight;
    return config;
  }

  std::size_t num_in_flight() const { return scheduler_.num_steps_in_flight(); }

  void idle_until(std::optional<Instant> until) {
    std::optional<Instant> arrival;
    std::optional<Instant> abort;
    if (next_ < workload_.size()) arrival = workload_[next_].arrival;
    if (!aborts_.empty()) abort = aborts_.begin()->first;
    const Instant before = clock_.now();
    clock_.advance_to(*earliest({until, arrival, abort, executor_.next_fetch_end()}));
    times_.idle += clock_.now() - before;
  }

  void deliver() {
    for (; next_ < workload_.size() && workload_[next_].arrival <= clock_.now(); ++next_) {
      const WorkloadRequest& each = workload_[next_];
      if (!scheduler_.add(each.request, clock_.now()).ok()) continue;
      const SamplingParams& params = *each.request.sampling_params;
      const auto n = static_cast<RequestId>(params.is_beam_search() ? 1 : params.n);
      for (RequestId i = 0; i < n; ++i) {
        live_.insert(each.request.request_id + i);
        if (each.abort) aborts_.emplace(*each.abort, each.request.request_id + i);
      }
    }
    for (; !aborts_.empty() && aborts_.begin()->first <= clock_.now();
         aborts_.erase(aborts_.begin())) {
      const auto aborted = scheduler_.abort(aborts_.begin()->second, clock_.now());
      if (aborted != nullptr) end(*aborted);
    }
  }

  void end(const Request& request) {
    times_.ended += request.step_time();
    live_.erase(request.id());
  }

  std::string end_step() {
    const SchedulerOutput& plan = plans_[(num_begun_ - num_in_flight()) % plans_.size()];
    const Instant before = clock_.now();
    if (!executor_.sample({}).ok() || !executor_.collect(result_).ok()) return "collect() failed";
    const std::int64_t took = (clock_.now() - before).count();
    if (random_.chance(0.5)) deliver();
    const std::int64_t charged_before = scheduler_.stats().step_time_charged_ns;
    const bool alone = plans_.size() == 1;
    const bool wanted = std::ranges::any_of(plan.scheduled, [&](const ScheduledRequest& each) {
      return live_.contains(each.request_id);
    });
    if (!scheduler_.update(result_, clock_.now(), outputs_).ok()) return "update() failed";
    for (const RequestStepOutput& output : outputs_) {
      if (output.finished != nullptr) end(*output.finished);
    }
    const std::int64_t charged = scheduler_.stats().step_time_charged_ns - charged_before;
    if (charged != took && (charged != 0 || (alone && wanted))) {
      return fmt::format("of a step of {} ns {} are divided", took, charged);
    }
    times_.nobodys += Duration(took - charged);
    return {};
  }

  std::string check() const {
    Duration sum = times_.ended + times_.idle + times_.nobodys;
    for (const RequestId id : live_) sum += scheduler_.find(id)->step_time();
    if (sum == clock_.now()) return {};
    return fmt::format("{} ns have passed, the shares are {}", clock_.now().count(), sum.count());
  }

  const TraceConfig trace_;
  const std::vector<WorkloadRequest> workload_;
  RandomStream random_;
  VirtualClock clock_;
  Scheduler scheduler_;
  SimulatedExecutor executor_;
  std::vector<SchedulerOutput> plans_;
  std::size_t num_begun_ = 0;
  ModelRunnerOutput result_;
  TierReport tier_report_;
  std::vector<RequestStepOutput> outputs_;
  std::size_t next_ = 0;
  std::set<RequestId> live_;
  std::multimap<Instant, RequestId> aborts_;
  Times times_;
};

TEST(StepTimeLaw, SharesAndIdleTimeAreAllTime) {
  for (const std::int32_t max_steps_in_flight : {1, 2}) {
    Times times;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      ASSERT_EQ(TimedRun(seed, max_steps_in_flight).run(times), "") << "seed " << seed;
    }
    EXPECT_GT(times.ended, Duration::zero());
    EXPECT_GT(times.idle, Duration::zero());
    EXPECT_GT(times.nobodys, Duration::zero());
  }
}

}  // namespace step_time_law_test
}  // namespace quire
