#include "apps/simulate/recorded_run.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "apps/event_log_files.h"

namespace quire {
namespace {

// Gathers, while a log is replayed.
class RunReader {
 public:
  RunReader()
      : replay_([this](const Request& request, Instant time) { end(request, time); },
                [this](const SchedulerOutput& plan, Instant planned, Instant ended) {
                  step(plan, planned, ended);
                }) {}
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;
  ~RunReader() = default;

  Result<RecordedRun> read(const std::string& name) {
    QUIRE_ASSIGN_OR_RETURN(const auto files, event_log_files(name));
    ReplayNotes notes;
    QUIRE_RETURN_IF_ERROR(replay_files(
        files, replay_, notes, [] { return false; }, [](std::uint64_t, std::uint64_t) {}));
    if (const auto& difference = replay_.difference()) {
      return Status::invalid_argument(
          fmt::format("{} was recorded by a program that schedules otherwise: {}", name,
                      difference->what),
          fmt::format("see quire replay {}", name));
    }
    if (run_.traffic.arrivals.empty()) {
      return Status::invalid_argument(fmt::format("{}: no request of the log has ended", name));
    }
    finish();
    run_.notes.insert(run_.notes.begin(), notes.begin(), notes.end());
    return std::move(run_);
  }

 private:
  // A step's guesses at the tokens of an output from `place` on.
  struct StepGuesses {
    std::int32_t place = 0;
    std::vector<TokenId> token_ids;
  };

  // Settings may differ from run to run, and clocks do.
  void begin_run() {
    if (replay_.summary().num_runs == num_runs_) return;
    num_runs_ = replay_.summary().num_runs;
    run_ = {};
    totals_ = {};
    paces_.clear();
    stopwatch_ = {};
    guesses_.clear();
    num_without_output_ = 0;
  }

  void step(const SchedulerOutput& plan, Instant planned, Instant ended) {
    begin_run();
    if (plan.scheduled.empty()) return;  // it only let requests go
    const Duration time = stopwatch_.taken(planned, ended);
    totals_.busy += time;
    count_step(plan, *replay_.scheduler(), time, totals_);
    run_.steps.push_back({.work = work_of(plan), .time = time});
    for (const ScheduledRequest& each : plan.scheduled) note_drafts(plan, each);
    run_.result.draft_tokens += std::ssize(plan.draft_token_ids);
    if (replay_.scheduler()->pace().limited()) paces_.push_back(replay_.scheduler()->pace());
  }

  // Of drafts that form a tree, those of its first path.
  void note_drafts(const SchedulerOutput& plan, const ScheduledRequest& each) {
    if (each.use != RowUse::kTokens) return;
    StepGuesses step = {.place = each.end_without_drafts(), .token_ids = {}};
    const std::span<const TokenId> drafts = plan.drafts_of(each).tokens();
    const std::int32_t count = each.num_drafts - each.num_branched;
    step.token_ids.assign(drafts.begin(), drafts.begin() + count);
    guesses_[each.request_id].push_back(std::move(step));
  }

  // `sequence`: the request's tokens in the end.
  static DraftedStep compared(const StepGuesses& step, std::span<const TokenId> sequence) {
    const auto place = std::min(static_cast<std::size_t>(step.place), sequence.size());
    const auto differs = std::ranges::mismatch(step.token_ids, sequence.subspan(place));
    return {.place = step.place,
            .num_drafts = static_cast<std::int32_t>(step.token_ids.size()),
            .num_right = static_cast<std::int32_t>(differs.in1 - step.token_ids.begin())};
  }

  void end(const Request& request, Instant time) {
    begin_run();
    if (!request.first_token() && !request.is_pooled()) {
      guesses_.erase(request.id());
      ++num_without_output_;
      return;
    }
    Arrival arrival;
    arrival.time = request.arrival();
    arrival.input_len = request.num_prompt_tokens();
    arrival.output_len = std::max(request.num_output_tokens(), 1);
    arrival.priority = request.priority();
    arrival.deadline = request.deadline();
    arrival.user = request.user();
    arrival.cache_scope = request.cache_scope();
    arrival.token_ids = request.token_ids();
    for (const StepGuesses& step : guesses_[request.id()]) {
      arrival.steps.push_back(compared(step, arrival.token_ids));
    }
    guesses_.erase(request.id());
    run_.result.requests.push_back({.arrival = arrival.time,
                                    .first_token = request.first_token().value_or(time),
                                    .end = time,
                                    .input_len = arrival.input_len,
                                    .output_len = arrival.output_len,
                                    .num_cached_tokens = request.num_cached_tokens(),
                                    .num_preemptions = request.num_preemptions()});
    run_.result.num_preemptions += request.num_preemptions();
    run_.result.tokens_recomputed += request.num_recomputed_tokens();
    run_.result.draft_tokens_accepted += request.num_accepted_drafts();
    run_.traffic.arrivals.push_back(std::move(arrival));
  }

  void finish() {
    const Scheduler& scheduler = *replay_.scheduler();
    const SchedulerStats stats = scheduler.stats();
    run_.scheduler = scheduler.config();
    run_.traffic.source = "an event log";
    std::ranges::stable_sort(run_.traffic.arrivals, {}, &Arrival::time);
    const Instant first = run_.traffic.arrivals.front().time;
    for (Arrival& arrival : run_.traffic.arrivals) arrival.time -= first;
    for (SimulatedRequest& request : run_.result.requests) {
      request.arrival -= first;
      request.first_token -= first;
      request.end -= first;
      run_.result.duration = std::max(run_.result.duration, Duration(request.end));
    }
    run_.result.take(totals_);
    run_.result.num_rejected = stats.num_rejected;
    run_.result.tokens_discarded = stats.tokens_discarded;
    run_.result.server_requests = {std::ssize(run_.traffic.arrivals)};
    if (!paces_.empty()) {
      const auto middle = paces_.begin() + std::ssize(paces_) / 2;
      std::ranges::nth_element(paces_, middle, {}, &StepPace::max_step);
      run_.pace = *middle;
    }
    note(num_without_output_, "ended without a token");
    note(stats.num_running + stats.num_waiting, "had not ended");
    if (run_.result.draft_tokens > 0) {
      run_.notes.push_back(fmt::format(
          "the server computed {} drafts, {} of them right; a simulation has those again unless "
          "--speculative-acceptance says how many are right",
          run_.result.draft_tokens, run_.result.draft_tokens_accepted));
      std::vector<std::vector<DraftedStep>> steps;
      for (Arrival& arrival : run_.traffic.arrivals) steps.push_back(std::move(arrival.steps));
      run_.drafts = std::make_shared<const RecordedDrafts>(std::move(steps));
    }
    if (run_.scheduler.kv_tier) {
      run_.notes.emplace_back("the server had files of KV blocks; a simulation has none");
    }
    if (num_runs_ > 1) {
      run_.notes.push_back(fmt::format("the log has {} runs; this is the last", num_runs_));
    }
  }

  void note(std::int64_t count, std::string_view what) {
    if (count == 0) return;
    run_.notes.push_back(
        fmt::format("{} request{} {}: left out", count, count == 1 ? "" : "s", what));
  }

  Replay replay_;
  RecordedRun run_;
  std::unordered_map<RequestId, std::vector<StepGuesses>> guesses_;  // of those that go on
  StepTotals totals_;
  std::vector<StepPace> paces_;  // of each step that had one
  StepStopwatch stopwatch_;
  std::uint64_t num_runs_ = 0;
  std::int64_t num_without_output_ = 0;
};

}  // namespace

Result<RecordedRun> read_recorded_run(const std::string& name) { return RunReader().read(name); }

}  // namespace quire
