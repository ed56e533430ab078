// A scheduler that was restored from a snapshot goes on exactly as the one that it was taken of:
// random traffic, a snapshot before random steps, and from then on both side by side.
#include "core/scheduler_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/earliest.h"
#include "sim/random_trace.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"
#include "sim/workload.h"

namespace quire {
namespace scheduler_snapshot_test {

using namespace std::chrono_literals;

bool same(const NewRequestData& a, const NewRequestData& b) {
  return a.request_id == b.request_id && a.first_token == b.first_token &&
         a.num_tokens == b.num_tokens && a.num_prompt_tokens == b.num_prompt_tokens &&
         a.sample_index == b.sample_index && a.first_block == b.first_block &&
         a.num_blocks == b.num_blocks;
}

// Empty, or the part of the two plans that differs.
std::string difference(const SchedulerOutput& a, const SchedulerOutput& b) {
  if (a.step_id != b.step_id) return "step ids";
  if (a.removed_request_ids != b.removed_request_ids) return "removed requests";
  if (a.new_block_ids != b.new_block_ids) return "new blocks";
  if (a.new_token_ids != b.new_token_ids) return "tokens";
  if (a.total_num_scheduled_tokens != b.total_num_scheduled_tokens) return "totals";
  if (!std::ranges::equal(a.new_requests, b.new_requests, same)) return "new requests";
  if (a.replaced_blocks != b.replaced_blocks) return "replaced blocks";
  if (a.block_stores != b.block_stores) return "stores";
  if (a.block_fetches != b.block_fetches) return "fetches";
  if (a.block_copies != b.block_copies) return "copies";
  if (a.scheduled != b.scheduled) return "scheduled requests";
  return {};
}

// What the snapshots came upon, over all traces.
struct Coverage {
  int snapshots = 0;
  int running = 0;
  int preempted = 0;
  int cached_blocks = 0;
  int retained_rows = 0;
  int outputs = 0;
  int fetches = 0;  // on their way
  int pins = 0;
};

class SideBySide {
 public:
  SideBySide(std::uint64_t seed, bool groups, Coverage& coverage)
      : coverage_(coverage),
        trace_(groups ? random_trace_of_groups(seed) : random_trace(seed)),
        workload_(make_workload(trace_.workload)),
        random_(~seed),
        first_(std::make_unique<Scheduler>(trace_.scheduler)),
        second_(std::make_unique<Scheduler>(trace_.scheduler)),
        executor_({.block_size = trace_.scheduler.block_size,
                   .num_blocks = trace_.scheduler.num_blocks,
                   .vocab_size = trace_.workload.vocab_size,
                   .step_time = 200us,
                   .token_time = 10us,
                   .kv_groups = trace_.scheduler.kv_groups,
                   .tier = trace_.tier},
                  clock_) {}

  // Empty, or what went wrong.
  std::string run() {
    while (next_ < workload_.size() || first_->has_work() || first_->num_fetches_in_flight() > 0) {
      if (!first_->has_work()) pass_time(std::nullopt);
      take_tier_report();
      if (auto error = deliver_commands(); !error.empty()) return error;
      if (random_.chance(0.1)) {
        if (auto error = restore(); !error.empty()) return error;
      }
      const auto deadline = first_->next_deadline();
      if (deadline != second_->next_deadline()) return "deadlines differ";
      if (auto error = step(); !error.empty()) return error;
      if (plan_.empty() && first_->has_work()) pass_time(deadline);
    }
    if (!std::ranges::equal(first_->pinned().all(), second_->pinned().all())) return "pins differ";
    return first_->stats() == second_->stats() ? "" : "statistics differ";
  }

 private:
  // The second scheduler becomes what a snapshot of the first gives.
  std::string restore() {
    auto snapshot = first_->snapshot();
    if (!snapshot.ok()) return snapshot.status().message();
    ++coverage_.snapshots;
    coverage_.running += static_cast<int>(snapshot->running.size());
    coverage_.retained_rows += static_cast<int>(snapshot->retained.size());
    coverage_.cached_blocks += static_cast<int>(snapshot->kv.index.nodes.size());
    coverage_.fetches += static_cast<int>(snapshot->fetches.size());
    coverage_.pins += static_cast<int>(snapshot->pins.size());
    for (const RequestSnapshot& request : snapshot->waiting) {
      coverage_.preempted += request.state == RequestState::kPreempted ? 1 : 0;
    }
    auto restored = Scheduler::restore(std::move(*snapshot));
    if (!restored.ok()) return restored.status().message();
    second_ = std::move(*restored);
    return {};
  }

  std::string deliver_commands() {
    const Instant now = clock_.now();
    for (; next_ < workload_.size() && workload_[next_].arrival <= now; ++next_) {
      const WorkloadRequest& arrival = workload_[next_];
      AddRequest request = arrival.request;
      if (trace_.scheduler.max_pinned_blocks > 0 && random_.chance(0.4)) {
        request.pin = request.request_id;
      }
      const Status status = first_->add(request, now);
      if (second_->add(request, now).message() != status.message()) {
        return "admission differs";
      }
      if (status.ok() && arrival.abort) aborts_.emplace(*arrival.abort, request.request_id);
    }
    if (!first_->pinned().all().empty() && random_.chance(0.05)) {
      const PinId pin = first_->pinned().all().front().id;
      if (!first_->unpin(pin) || !second_->unpin(pin)) return "a pin is lost";
    }
    for (auto due = aborts_.begin(); due != aborts_.end() && due->first <= now;) {
      const auto a = first_->abort(due->second, now);
      const auto b = second_->abort(due->second, now);
      if (auto error = compare(a.get(), b.get(), now); !error.empty()) return error;
      due = aborts_.erase(due);
    }
    return {};
  }

  std::string step() {
    SchedulerOutput other;
    if (!first_->schedule(clock_.now(), plan_).ok() || !second_->schedule(clock_.now(), other).ok())
      return "schedule() failed";
    if (auto part = difference(plan_, other); !part.empty()) {
      return fmt::format("step {}: {} differ", plan_.step_id, part);
    }
    if (plan_.empty()) return {};
    ModelRunnerOutput result;
    if (const Status status = executor_.execute(plan_, result); !status.ok()) {
      return status.message();
    }
    if (first_->snapshot().ok()) return "a snapshot was taken while a step is in flight";
    std::vector<RequestStepOutput> a;
    std::vector<RequestStepOutput> b;
    if (!first_->update(result, clock_.now(), a).ok() ||
        !second_->update(result, clock_.now(), b).ok() || a.size() != b.size()) {
      return "update() failed, or gave something else";
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      ++coverage_.outputs;
      if (a[i].request_id != b[i].request_id || a[i].first_sampled != b[i].first_sampled ||
          a[i].num_sampled != b[i].num_sampled) {
        return "outputs differ";
      }
      if (auto error = compare(a[i].finished.get(), b[i].finished.get(), clock_.now());
          !error.empty()) {
        return error;
      }
    }
    return {};
  }

  // Requests that ended: with the same life.
  std::string compare(const Request* a, const Request* b, Instant now) const {
    if ((a == nullptr) != (b == nullptr)) return "one request ended, the other did not";
    if (a == nullptr) return {};
    bool same = a->finish_reason() == b->finish_reason() && a->token_ids() == b->token_ids() &&
                a->num_preemptions() == b->num_preemptions() &&
                a->num_recomputed_tokens() == b->num_recomputed_tokens() &&
                a->num_cached_tokens() == b->num_cached_tokens() &&
                a->step_time() == b->step_time() && a->first_scheduled() == b->first_scheduled() &&
                a->first_token() == b->first_token() && a->finish_time() == b->finish_time();
    for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
      const auto cause = static_cast<WaitCause>(i);
      same = same && a->timeline().total(cause, now) == b->timeline().total(cause, now);
    }
    return same ? "" : fmt::format("request {} had another life", a->id());
  }

  void take_tier_report() {
    TierReport report;
    if (!executor_.take_tier_report(report)) return;
    first_->take_in(report, clock_.now());
    second_->take_in(report, clock_.now());
  }

  void pass_time(std::optional<Instant> deadline) {
    std::optional<Instant> arrival;
    std::optional<Instant> abort;
    if (next_ < workload_.size()) arrival = workload_[next_].arrival;
    if (!aborts_.empty()) abort = aborts_.begin()->first;
    clock_.advance_to(*earliest({deadline, arrival, abort, executor_.next_fetch_end()}));
  }

  Coverage& coverage_;
  const TraceConfig trace_;
  const std::vector<WorkloadRequest> workload_;
  RandomStream random_;
  VirtualClock clock_;
  std::unique_ptr<Scheduler> first_;
  std::unique_ptr<Scheduler> second_;
  SimulatedExecutor executor_;
  SchedulerOutput plan_;
  std::size_t next_ = 0;
  std::multimap<Instant, RequestId> aborts_;
};

TEST(SchedulerSnapshot, ARestoredSchedulerGoesOnTheSame) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    ASSERT_EQ(SideBySide(seed, false, coverage).run(), "") << "seed " << seed;
  }
  EXPECT_GT(coverage.snapshots, 5000);
  EXPECT_GT(coverage.running, 10'000);
  EXPECT_GT(coverage.preempted, 100);
  EXPECT_GT(coverage.cached_blocks, 10'000);
  EXPECT_GT(coverage.retained_rows, 500);
  EXPECT_GT(coverage.outputs, 50'000);
  EXPECT_GT(coverage.fetches, 10);
  EXPECT_GT(coverage.pins, 300);
}

TEST(SchedulerSnapshot, ARestoredSchedulerOfSeveralKvGroupsGoesOnTheSame) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    ASSERT_EQ(SideBySide(seed, true, coverage).run(), "") << "seed " << seed;
  }
  EXPECT_GT(coverage.snapshots, 3000);
  EXPECT_GT(coverage.running, 5000);
  EXPECT_GT(coverage.cached_blocks, 5000);
}

// A request that runs, one that waits, and a prefix cache with something in it.
SchedulerSnapshot small_snapshot() {
  SchedulerConfig config;
  config.block_size = 4;
  config.num_blocks = 16;
  config.max_model_len = 40;
  config.max_num_seqs = 1;
  Scheduler scheduler(config);
  SamplingParams params;
  params.max_tokens = 8;
  const auto shared = std::make_shared<const SamplingParams>(params);
  for (const RequestId id : {1, 2}) {
    AddRequest request;
    request.request_id = id;
    request.prompt_token_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    request.sampling_params = shared;
    EXPECT_TRUE(scheduler.add(request, 1ms).ok());
  }
  SchedulerOutput plan;
  EXPECT_TRUE(scheduler.schedule(2ms, plan).ok());
  ModelRunnerOutput result;
  result.step_id = plan.step_id;
  result.sampled.push_back({.request_id = 1, .token_id = 7});
  std::vector<RequestStepOutput> outputs;
  EXPECT_TRUE(scheduler.update(result, 3ms, outputs).ok());
  return *scheduler.snapshot();
}

TEST(SchedulerSnapshot, ARealOneIsAccepted) {
  const auto restored = Scheduler::restore(small_snapshot());
  ASSERT_TRUE(restored.ok()) << restored.status().to_string();
  EXPECT_EQ((*restored)->stats().num_running, 1);
  EXPECT_EQ((*restored)->stats().num_waiting, 1);
  EXPECT_EQ((*restored)->find(1)->output_token_ids()[0], 7);
}

// Each would make a scheduler that reads or writes where it must not, or never ends.
TEST(SchedulerSnapshot, WhatCannotBeIsRefused) {
  const std::vector<std::pair<const char*, void (*)(SchedulerSnapshot&)>> damages = {
      {"config", [](SchedulerSnapshot& s) { s.config.block_size = 0; }},
      {"pool too large", [](SchedulerSnapshot& s) { s.config.num_blocks = 2'000'000'000; }},
      {"sequences too long", [](SchedulerSnapshot& s) { s.config.max_model_len = 2'000'000'000; }},
      {"a block of no pool", [](SchedulerSnapshot& s) { s.kv.tables[0].block_ids[0] = 99; }},
      {"a negative block", [](SchedulerSnapshot& s) { s.kv.tables[0].block_ids[0] = -1; }},
      {"a block twice",
       [](SchedulerSnapshot& s) { s.kv.tables[0].block_ids[1] = s.kv.tables[0].block_ids[0]; }},
      {"a block that is free", [](SchedulerSnapshot& s) { s.kv.tables[0].block_ids.pop_back(); }},
      {"a used block in the list",
       [](SchedulerSnapshot& s) { s.kv.free_block_ids[0] = s.kv.tables[0].block_ids[0]; }},
      {"a free block twice",
       [](SchedulerSnapshot& s) { s.kv.free_block_ids[0] = s.kv.free_block_ids[1]; }},
      {"more nodes than blocks", [](SchedulerSnapshot& s) { s.kv.tables[0].nodes.resize(9, 1); }},
      {"a cached block that is to be written",
       [](SchedulerSnapshot& s) { s.kv.tables[0].nodes.pop_back(); }},
      {"a table of nobody", [](SchedulerSnapshot& s) { s.kv.tables[0].request_id = 2; }},
      {"a node of no page", [](SchedulerSnapshot& s) { s.kv.index.pages[0] = 16; }},
      {"two nodes of one page",
       [](SchedulerSnapshot& s) { s.kv.index.pages[0] = s.kv.index.pages[1]; }},
      {"a last node without a block", [](SchedulerSnapshot& s) { s.kv.index.pages[1] = -1; }},
      {"a table of another's nodes",
       [](SchedulerSnapshot& s) { std::swap(s.kv.tables[0].nodes[0], s.kv.tables[0].nodes[1]); }},
      {"no KV groups", [](SchedulerSnapshot& s) { s.config.kv_groups.clear(); }},
      {"half a block", [](SchedulerSnapshot& s) { s.config.kv_groups[0].pages_per_block = 2; }},
      {"passed tokens without a window",
       [](SchedulerSnapshot& s) { s.kv.tables[0].num_passed_tokens = 99; }},
      {"nodes out of order",
       [](SchedulerSnapshot& s) { std::swap(s.kv.index.nodes[0], s.kv.index.nodes[1]); }},
      {"a node below itself", [](SchedulerSnapshot& s) { s.kv.index.nodes[1].parent = 2; }},
      {"a node without tokens", [](SchedulerSnapshot& s) { s.kv.index.tokens.pop_back(); }},
      {"no parameters", [](SchedulerSnapshot& s) { s.running[0].sampling_params = nullptr; }},
      {"no prompt", [](SchedulerSnapshot& s) { s.running[0].num_prompt_tokens = 0; }},
      {"a prompt beyond the tokens",
       [](SchedulerSnapshot& s) { s.running[0].num_prompt_tokens = 11; }},
      {"all computed", [](SchedulerSnapshot& s) { s.running[0].num_computed_tokens = 10; }},
      {"too much output", [](SchedulerSnapshot& s) { s.waiting[0].token_ids.resize(17, 1); }},
      {"an index of no output", [](SchedulerSnapshot& s) { s.running[0].sample_index = 1; }},
      {"waiting among the running",
       [](SchedulerSnapshot& s) { s.running[0].state = RequestState::kWaiting; }},
      {"finished", [](SchedulerSnapshot& s) { s.waiting[0].state = RequestState::kFinished; }},
      {"a group to come", [](SchedulerSnapshot& s) { s.running[0].group_id = 1; }},
      {"an arrival to come", [](SchedulerSnapshot& s) { s.num_arrivals = 1; }},
      {"twice the same", [](SchedulerSnapshot& s) { s.waiting[0].request_id = 1; }},
      {"a time that overflows",
       [](SchedulerSnapshot& s) { s.running[0].arrival = Instant::max(); }},
      {"vacancies", [](SchedulerSnapshot& s) { s.num_vacancies = 2; }},
      {"a row of nothing",
       [](SchedulerSnapshot& s) {
         s.retained.push_back({7, 0});
       }},
      {"a pin of nothing",
       [](SchedulerSnapshot& s) { s.pins.push_back({.id = 7, .num_blocks = 1, .num_pages = 1}); }},
      {"more to be pinned than may be", [](SchedulerSnapshot& s) { s.waiting[0].pin = 7; }},
      {"a counter that overflows",
       [](SchedulerSnapshot& s) { s.counters.output_tokens_sampled = INT64_MAX; }},
      {"counts that do not add up", [](SchedulerSnapshot& s) { ++s.counters.num_added; }},
  };
  for (const auto& [what, damage] : damages) {
    SchedulerSnapshot snapshot = small_snapshot();
    damage(snapshot);
    const auto restored = Scheduler::restore(std::move(snapshot));
    EXPECT_FALSE(restored.ok()) << what;
    if (!restored.ok()) {
      EXPECT_FALSE(restored.status().message().empty()) << what;
    }
  }
}

}  // namespace scheduler_snapshot_test
}  // namespace quire
