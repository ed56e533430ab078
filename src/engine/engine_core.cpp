#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/engine_stats.h"

namespace quire {
namespace {

constexpr Stage kStepStage = {StageKind::kWhole, "step"};
constexpr Stage kTakeCommandsStage = {StageKind::kBookkeeping, "take commands"};
constexpr Stage kWaitStage = {StageKind::kWait, "wait for commands"};
constexpr Stage kDraftStage = {StageKind::kBookkeeping, "propose drafts"};
constexpr Stage kScheduleStage = {StageKind::kBookkeeping, "schedule"};
constexpr Stage kMaskStage = {StageKind::kBookkeeping, "fill masks"};
constexpr Stage kExecuteStage = {StageKind::kWhole, "execute"};
constexpr Stage kObserveStage = {StageKind::kBookkeeping, "tell observer"};
constexpr Stage kUpdateStage = {StageKind::kBookkeeping, "update"};
constexpr Stage kOutputStage = {StageKind::kBookkeeping, "pass on output"};
constexpr std::chrono::seconds kLongestKeeping{5};

constexpr Stage kStatsStage = {StageKind::kBookkeeping, "publish stats"};

}  // namespace

EngineCore::EngineCore(const SchedulerConfig& config, std::unique_ptr<Executor> executor,
                       OutputProcessor& outputs, RunningConstraints constraints,
                       const SteadyClock& clock, std::function<void(const StepRecord&)> stepped,
                       SpanRecorder* spans, std::unique_ptr<SchedulerListener> listener,
                       std::optional<StepPacer> pacer, PinRegistry& pins,
                       std::unique_ptr<Speculator> speculator)
    : clock_(clock),
      outputs_(outputs),
      steps_(static_cast<std::size_t>(config.max_steps_in_flight)),
      executor_(std::move(executor)),
      scheduler_(config),
      constraints_(std::move(constraints)),
      stepped_(std::move(stepped)),
      spans_(spans),
      listener_(std::move(listener)),
      pacer_(std::move(pacer)),
      pins_(pins),
      speculator_(std::move(speculator)),
      stats_(scheduler_.stats()),
      group_uses_(scheduler_.kv_cache().group_uses().begin(),
                  scheduler_.kv_cache().group_uses().end()),
      thread_(new_thread("quire-engine", [this] {
        executor_->on_tier_report([this] {
          const std::lock_guard lock(mutex_);
          tier_told_ = true;
          wake_.notify_one();
        });
        run();
        executor_->on_tier_report({});
      })) {}

void EngineCore::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

EngineStats EngineCore::stats() const {
  const TierStats tier = executor_->tier_stats();
  const std::lock_guard lock(mutex_);
  return engine_stats(stats_, scheduler_.config(), group_uses_, speculation_times_, tier);
}

EngineHeartbeat EngineCore::heartbeat() const {
  const std::uint64_t progress = executor_->progress();
  const std::lock_guard lock(mutex_);
  return {.failure = failure_, .busy = busy_, .progress = progress + num_rounds_};
}

void EngineCore::run() {
  Status end;
  while (end.ok()) end = or_status([this] { return run_round(); });
  fail(end);
  if (end.code() == StatusCode::kCancelled) (void)or_status([this] { return keep_blocks(); });
}

// For the next run: what would have been offloaded later. What the steps in flight computed
// does not count any more.
Status EngineCore::keep_blocks() {
  const std::vector<BlockStore> blocks = scheduler_.kv_cache().kept_blocks();
  if (blocks.empty()) return {};
  for (; num_begun_ > num_ended_; ++num_ended_) {
    QUIRE_RETURN_IF_ERROR(executor_->collect(step_.result));
  }
  const std::int64_t num_kept = executor_->keep_blocks(blocks, kLongestKeeping);
  log_info("{} of {} KV blocks of the prefix cache were kept in files", num_kept, blocks.size());
  return {};
}

Status EngineCore::run_round() {
  const ScopedSpan round(spans_, kStepStage);
  if (!take_commands()) return {StatusCode::kCancelled, "the engine is shutting down"};
  QUIRE_RETURN_IF_ERROR(make_way_for_updates());
  if (listener_ && num_begun_ == num_ended_) listener_->between_steps(scheduler_, clock_.now());
  take_tier_report();
  apply_all();
  unpin_expired();
  QUIRE_RETURN_IF_ERROR(begin_steps());
  if (num_begun_ > num_ended_) {
    if (round.get() != nullptr) round.get()->id = steps_[num_ended_ % steps_.size()].plan.step_id;
    return end_step();
  }
  publish_stats();
  return {};
}

bool EngineCore::take_commands() {
  const ScopedSpan span(spans_, kTakeCommandsStage);
  std::unique_lock lock(mutex_);
  const auto woken = [&] { return stopping_ || !commands_.empty() || tier_told_; };
  const bool in_flight = num_begun_ > num_ended_;
  auto deadline = in_flight ? Instant::zero() : scheduler_.next_deadline();
  if (const auto expiry = pins_.next_expiry())
    deadline = std::min(deadline.value_or(*expiry), *expiry);
  ++num_rounds_;
  busy_ = false;
  if (!deadline) {
    const ScopedSpan wait(spans_, kWaitStage);
    wake_.wait(lock, woken);
  } else if (const Instant now = clock_.now(); *deadline > now) {
    const ScopedSpan wait(spans_, kWaitStage);
    wake_.wait_for(lock, *deadline - now, woken);
  }
  busy_ = true;
  if (stopping_) return false;  // whoever still waits for an answer is told by fail()
  taken_.swap(commands_);
  return true;
}

void EngineCore::take_tier_report() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(tier_told_, false)) return;
  }
  if (executor_->take_tier_report(tier_report_)) tell_scheduler(tier_report_);
}

void EngineCore::tell_scheduler(const TierReport& report) {
  const Instant now = clock_.now();
  if (pacer_) pacer_->fetched(report.fetched);
  scheduler_.take_in(report, now);
  if (listener_) listener_->tier_reported(report, now);
}

Status EngineCore::begin_steps() {
  while (num_begun_ - num_ended_ < steps_.size()) {
    if (num_begun_ > num_ended_ && listener_ && listener_->wants_pause()) return {};
    StepInFlight& step = steps_[num_begun_ % steps_.size()];
    step.start = clock_.now();
    propose_drafts(step.start);
    step.drafting = speculator_ ? speculator_->drafting() : Duration::zero();
    {
      const ScopedSpan span(spans_, kScheduleStage);
      set_pace(step.start);
      QUIRE_RETURN_IF_ERROR(scheduler_.schedule(step.start, step.plan));
    }
    if (listener_) listener_->scheduled(step.plan, step.start);
    if (step.plan.empty()) return {};
    ++num_begun_;
    QUIRE_RETURN_IF_ERROR(executor_->submit(step.plan));
    {
      const ScopedSpan span(constraints_.empty() ? nullptr : spans_, kMaskStage);
      constraints_.fill(step.plan, step.masks);
    }
    QUIRE_RETURN_IF_ERROR(executor_->sample(step.masks.masks));
  }
  return {};
}

// A step begins, as far as its time is concerned, when the one before it has ended.
Status EngineCore::end_step() {
  const StepInFlight& step = steps_[num_ended_++ % steps_.size()];
  const Instant start = std::max(step.start, last_end_);
  // Guesses that were made while the step before was computed have cost it no time.
  const Duration drafting = step.start < last_end_ ? Duration::zero() : step.drafting;
  {
    const ScopedSpan span(spans_, kExecuteStage);
    if (speculator_) speculator_->read_ahead(scheduler_);
    QUIRE_RETURN_IF_ERROR(executor_->collect(step_.result));
  }
  if (stepped_) observe_step(step.plan, start);
  last_end_ = clock_.now();
  if (pacer_) pacer_->measured(work_of(step.plan), last_end_ - start);
  fail_stuck(step.masks);
  fail_processed();
  {
    const ScopedSpan span(spans_, kUpdateStage);
    QUIRE_RETURN_IF_ERROR(scheduler_.update(step_.result, last_end_, step_.outputs));
  }
  if (speculator_) follow_step(step.plan, last_end_ - start, drafting);
  if (listener_) listener_->updated(step_.result, last_end_);
  settle_pins();
  take_tokens();
  mark_forced(step.masks);
  publish_stats();  // before somebody has these outputs, and asks
  const ScopedSpan span(spans_, kOutputStage);
  outputs_.push(step_);
  return {};
}

// A row behind a draft counts only where the draft was right.
void EngineCore::fail_stuck(const StepMasks& masks) {
  for (const StepMasks::Stuck& row : masks.stuck) {
    const auto num_sampled =
        std::ranges::count(step_.result.sampled, row.output_id, &SampledToken::request_id);
    if (num_sampled > row.draft) fail_request(constraints_.siblings(row.output_id), row.reason);
  }
}

// Those whose own processor failed. The first of several outputs ends the others.
void EngineCore::fail_processed() {
  for (const FailedRow& row : step_.result.failed) {
    const Request* request = scheduler_.find(row.request_id);
    if (request == nullptr) continue;
    const auto place = static_cast<RequestId>(request->sample_index());
    fail_request({row.request_id - place, request->sampling_params()->n}, row.reason);
  }
}

void EngineCore::fail_request(const RunningConstraints::Outputs& outputs, const Status& error) {
  for (std::int64_t i = 0; i < outputs.count; ++i) {
    abort_now(outputs.first + static_cast<RequestId>(i));
  }
  outputs_.push_failed(outputs.first, error);
}

void EngineCore::take_tokens() {
  if (constraints_.empty()) return;
  for (const RequestStepOutput& given : step_.outputs) {
    const auto tokens = std::span(step_.result.sampled)
                            .subspan(static_cast<std::size_t>(given.first_sampled),
                                     static_cast<std::size_t>(given.num_sampled));
    if (!constraints_.take(given.request_id, tokens)) {
      fail_request(constraints_.siblings(given.request_id),
                   Status::internal(fmt::format(
                       "output {} got a token that its mask does not allow", given.request_id)));
    } else if (given.finished != nullptr) {
      constraints_.remove(given.request_id);
    }
  }
}

// Outputs stand in the order of the rows.
void EngineCore::mark_forced(const StepMasks& masks) {
  step_.forced.clear();
  if (masks.forced.empty()) return;
  step_.forced.resize(step_.result.sampled.size());
  auto given = step_.outputs.begin();
  for (const StepMasks::Forced& row : masks.forced) {
    const auto found = std::ranges::find(given, step_.outputs.end(), row.output_id,
                                         &RequestStepOutput::request_id);
    if (found == step_.outputs.end()) continue;
    given = found;
    if (row.draft < given->num_sampled) {
      step_.forced[static_cast<std::size_t>(given->first_sampled + row.draft)] = 1;
    }
  }
}

void EngineCore::set_pace(Instant now) {
  if (!pacer_) return;
  const StepPace pace = pacer_->pace();
  if (pace == scheduler_.pace()) return;
  scheduler_.set_pace(pace);
  if (listener_) listener_->paced(pace, now);
}

// What a constraint forces is known, and goes before guesses.
void EngineCore::propose_drafts(Instant now) {
  const auto give = [this, now](RequestId request_id, DraftTreeView drafts) {
    scheduler_.propose(request_id, drafts);
    if (listener_) listener_->proposed(request_id, drafts, now);
  };
  forced_ids_.clear();
  if (!speculator_ && constraints_.empty()) return;
  const ScopedSpan span(spans_, kDraftStage);
  for (const Request* request : scheduler_.running()) {
    if (!request->constrained() || request->num_pending_tokens() != 1) continue;
    if (request->sampling_params()->logits_processor != nullptr) continue;
    constraints_.forced_tokens(request->id(), forced_tokens_);
    if (forced_tokens_.empty()) continue;
    forced_ids_.push_back(request->id());
    give(request->id(), forced_tokens_);
  }
  if (!speculator_) return;
  const auto guess = [&](RequestId request_id, DraftTreeView drafts) {
    if (std::ranges::find(forced_ids_, request_id) == forced_ids_.end()) give(request_id, drafts);
  };
  speculator_->propose(scheduler_, guess);
}

void EngineCore::follow_step(const SchedulerOutput& plan, Duration time, Duration drafting) {
  speculator_->took(plan, step_.result, step_.outputs, time, drafting);
  for (const RequestStepOutput& output : step_.outputs) {
    if (output.finished == nullptr) continue;
    speculator_->end(output.request_id, output.finished->output_token_ids());
  }
}

// Whether it is of a request that has not ended: of its own row, or of a beam of its search.
bool EngineCore::is_wanted(RequestId row) const {
  if (scheduler_.find(row) != nullptr) return true;
  return std::ranges::any_of(scheduler_.running(), [row](const Request* request) {
    return request->is_beam_search() && std::ranges::count(request->beams()->rows.told(), row) > 0;
  });
}

void EngineCore::observe_step(const SchedulerOutput& plan, Instant start) {
  const ScopedSpan span(spans_, kObserveStage);
  shares_.clear();
  for (const ScheduledRequest& each : plan.scheduled) {
    shares_.push_back({.output_id = each.request_id,
                       .num_tokens = each.num_scheduled_tokens,
                       .use = each.use,
                       .wanted = is_wanted(each.request_id)});
  }
  stepped_({.step_id = plan.step_id, .start = start, .end = clock_.now(), .shares = shares_});
}

// A step that failed, or lacked memory half-way, leaves the cache and the scheduler in an unknown
// state: every request ends with the reason, and later ones are refused with it.
void EngineCore::fail(const Status& error) {
  if (listener_) until_memory([&] { listener_->ended(error, clock_.now()); });
  until_memory([&] {
    const std::lock_guard lock(mutex_);
    failure_ = error;
  });
  end_taken(error);
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(commands_);
  }
  end_taken(error);
  until_memory([&] { outputs_.push_all_failed(error); });
}

void EngineCore::end_taken(const Status& error) {
  for (const Command& command : taken_) {
    const auto* inspect = std::get_if<Inspect>(&command);
    if (inspect != nullptr && inspect->look) inspect->look(nullptr);
    const auto* update = std::get_if<UpdateWeights>(&command);
    if (update != nullptr && update->done != nullptr) update->done->set_value(error);
  }
  taken_.clear();
}

void EngineCore::publish_stats() {
  const ScopedSpan span(spans_, kStatsStage);
  const SchedulerStats stats = scheduler_.stats();
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  if (speculator_) speculation_times_ = speculator_->times();
  std::ranges::copy(scheduler_.kv_cache().group_uses(), group_uses_.begin());
}

}  // namespace quire
