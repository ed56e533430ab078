// A scheduler and a speculator without an engine, for tests: tokens and times are what they are
// said to be.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "draft/drafter.h"
#include "engine/speculator.h"

namespace quire {

// The token of a request at a position, whatever was before it.
using TokenAt = std::function<TokenId(RequestId id, std::int32_t position)>;

inline TokenId repeated(RequestId /*id*/, std::int32_t position) { return 10 + position % 7; }

// A scheduler and a speculator, and steps that take what they are said to.
class SpeculatorLoop {
 public:
  explicit SpeculatorLoop(const SpeculativeConfig& config, TokenAt token_at = repeated)
      : token_at_(std::move(token_at)),
        scheduler_(scheduler_config(config)),
        speculator_(make_lookup_drafter(config, 8, 2000), config.num_speculative_tokens, 8,
                    [this] { return now_; }) {}
  // `make` gives one that computes up to so many guesses, and moves the clock by what that takes.
  SpeculatorLoop(const std::function<std::unique_ptr<Drafter>(Instant& now)>& make,
                 std::int32_t max_drafts, TokenAt token_at)
      : token_at_(std::move(token_at)),
        scheduler_(scheduler_config({})),
        speculator_(make(now_), max_drafts, 8, [this] { return now_; }) {}

  std::int64_t step_ns = 1'000'000;
  std::int64_t row_ns = 50'000;  // of a step; a prompt's token takes as much
  std::int64_t draft_ns = 0;     // of each guess, before the step

  void add(RequestId id, std::int64_t max_tokens, DraftCount count = std::nullopt,
           std::int64_t n = 1, std::int32_t num_prompt_tokens = 40) {
    SamplingParams params;
    params.max_tokens = max_tokens;
    params.n = n;
    AddRequest request;
    request.request_id = id;
    for (std::int32_t i = 0; i < num_prompt_tokens; ++i)
      request.prompt_token_ids.push_back(token_at_(id, i));
    request.sampling_params = std::make_shared<const SamplingParams>(params);
    ASSERT_TRUE(scheduler_.add(request, now_).ok());
    for (std::int64_t i = 0; i < n; ++i) {
      auto report = std::make_shared<SpeculationReport>();
      reports[id + static_cast<RequestId>(i)] = report;
      speculator_.begin(id + static_cast<RequestId>(i), count, std::move(report));
    }
  }

  void step() {
    const Instant start = now_;
    speculator_.propose(scheduler_, [&](RequestId id, DraftTreeView drafts) {
      scheduler_.propose(id, drafts);
      ++num_proposals[id];
    });
    ASSERT_TRUE(scheduler_.schedule(now_, plan_).ok());
    ModelRunnerOutput result;
    result.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use != RowUse::kTokens) continue;
      const DraftTreeView drafts = plan_.drafts_of(each);
      drafts_of[each.request_id] += each.num_drafts;
      branched_of[each.request_id] += each.num_branched;
      std::int32_t position = each.end_without_drafts();
      for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node;) {
        const TokenId token = token_at_(each.request_id, position++);
        result.sampled.push_back({.request_id = each.request_id, .token_id = token});
        node = drafts.child(*node, token);
      }
    }
    const auto num_drafts = static_cast<std::int64_t>(plan_.draft_token_ids.size());
    const Duration drafting = now_ - start + Duration(draft_ns * num_drafts);
    const Duration time = drafting + Duration(step_ns + row_ns * plan_.total_num_scheduled_tokens);
    now_ = start + time;
    std::vector<RequestStepOutput> outputs;
    ASSERT_TRUE(scheduler_.update(result, now_, outputs).ok());
    ASSERT_EQ(scheduler_.check_invariants().message(), "");
    speculator_.took(plan_, result, outputs, time, drafting);
    add_up(time, drafting, num_drafts);
    for (const RequestStepOutput& output : outputs) {
      if (output.finished == nullptr) continue;
      speculator_.end(output.request_id, output.finished->output_token_ids());
    }
    speculator_.read_ahead(scheduler_);
  }
  // Until nothing runs; returns the time that it took, in milliseconds.
  double run() {
    const Instant start = now_;
    while (scheduler_.has_work()) {
      step();
      if (::testing::Test::HasFatalFailure()) break;
    }
    return std::chrono::duration<double, std::milli>(now_ - start).count();
  }

  SchedulerStats stats() const { return scheduler_.stats(); }
  const SpeculationTimes& times() const { return speculator_.times(); }
  // Of all outputs' own reports.
  SpeculationTimes told() const {
    SpeculationTimes sum;
    for (const auto& [id, report] : reports) {
      sum.draft += report->times.draft;
      sum.verify += report->times.verify;
      sum.draft_rows += report->times.draft_rows;
    }
    return sum;
  }
  // The same as times(), from outside: sums over the steps that were run, in which `draft_rows` is
  // what rows are known to take.
  SpeculationTimes measured;
  std::map<RequestId, std::shared_ptr<SpeculationReport>> reports;
  std::map<RequestId, int> num_proposals;
  std::map<RequestId, int> drafts_of;
  std::map<RequestId, int> branched_of;

 private:
  void add_up(Duration time, Duration drafting, std::int64_t num_drafts) {
    const StepWork work = work_of(plan_);
    measured.draft += drafting;
    if (work.num_rows == 0) return;
    measured.taken += time;
    if (num_drafts == 0) return;
    measured.verify += time - drafting;
    measured.draft_rows += Duration(row_ns * num_drafts);
    ++measured.num_compared;
  }
  static SchedulerConfig scheduler_config(const SpeculativeConfig& speculation) {
    SchedulerConfig config;
    config.max_draft_paths = speculation.max_draft_paths();
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 256;
    config.max_model_len = 2000;
    config.num_blocks = 1000;
    return config;
  }

  TokenAt token_at_;
  Instant now_{};
  Scheduler scheduler_;
  Speculator speculator_;
  SchedulerOutput plan_;
};

}  // namespace quire
