// Commands to an engine, on their way from the caller to the scheduler.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "engine/engine_core.h"

namespace quire {
namespace {

constexpr Stage kApplyCommandsStage = {StageKind::kBookkeeping, "apply commands"};

}  // namespace

void EngineCore::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wake_.notify_one();
}

Status EngineCore::add(AddRequest request, RequestConstraint constraint,
                       RequestSpeculation speculation) {
  {
    const std::lock_guard lock(mutex_);
    QUIRE_RETURN_IF_ERROR(failure_);
    if (commands_.size() >= static_cast<std::size_t>(scheduler_.config().max_queued)) {
      return Status::resource_exhausted(fmt::format("{} requests wait already", commands_.size()),
                                        "try again later");
    }
    commands_.emplace_back(Add{std::move(request), std::move(constraint), std::move(speculation)});
  }
  wake_.notify_one();
  return {};
}

void EngineCore::abort(RequestId request_id) { post(Abort{request_id}); }
void EngineCore::reset_prefix_cache() { post(ResetPrefixCache{}); }
void EngineCore::unpin(PinId pin_id) { post(Unpin{pin_id}); }

void EngineCore::inspect(std::function<void(const EngineState*)> look) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) {
      commands_.emplace_back(Inspect{std::move(look)});
      look = nullptr;
    }
  }
  if (look) return look(nullptr);
  wake_.notify_one();
}

Status EngineCore::update_weights(const std::vector<TensorInfo>& tensors) {
  auto done = std::make_unique<std::promise<Status>>();
  std::future<Status> told = done->get_future();
  {
    const std::lock_guard lock(mutex_);
    QUIRE_RETURN_IF_ERROR(failure_);
    commands_.emplace_back(UpdateWeights{&tensors, std::move(done)});
  }
  wake_.notify_one();
  return told.get();
}

void EngineCore::apply_all() {
  const ScopedSpan span(spans_, kApplyCommandsStage);
  for (Command& command : taken_) apply(std::move(command));
  taken_.clear();
}

void EngineCore::apply(Command command) {
  if (const auto* abort = std::get_if<Abort>(&command)) {
    auto request = abort_now(abort->request_id);
    if (request != nullptr) outputs_.push_aborted(std::move(request));
    return;
  }
  if (const auto* inspect = std::get_if<Inspect>(&command)) {
    const EngineState state(scheduler_, speculator_ ? speculator_->times() : SpeculationTimes());
    return inspect->look(&state);
  }
  if (std::holds_alternative<ResetPrefixCache>(command)) return reset_prefix_cache_now();
  if (const auto* unpin = std::get_if<Unpin>(&command)) return unpin_now(unpin->pin_id);
  if (auto* update = std::get_if<UpdateWeights>(&command)) {
    return update->done->set_value(or_status([&] { return update_now(*update->tensors); }));
  }
  apply(std::get<Add>(command));
}

void EngineCore::unpin_now(PinId pin_id) {
  const bool found = scheduler_.unpin(pin_id);
  if (listener_) listener_->unpinned(pin_id, clock_.now(), found);
}

void EngineCore::unpin_expired() {
  for (const PinId pin_id : pins_.take_expired(clock_.now())) unpin_now(pin_id);
}

void EngineCore::settle_pins() {
  for (const RequestStepOutput& output : step_.outputs) {
    const PinId pin_id = output.finished == nullptr ? 0 : output.finished->pin();
    if (pin_id == 0) continue;
    const auto before = pins_.computed(pin_id, scheduler_.pinned().find(pin_id), last_end_);
    if (before) unpin_now(*before);
  }
}

void EngineCore::reset_prefix_cache_now() {
  if (const std::size_t num_pins = scheduler_.pinned().all().size(); num_pins > 0) {
    log_warning("the prefix cache was emptied, and with it {} pinned prefixes let go", num_pins);
  }
  pins_.clear();
  scheduler_.reset_prefix_cache();
  if (listener_) listener_->prefix_cache_reset(clock_.now());
}

Status EngineCore::make_way_for_updates() {
  const auto is_update = [](const Command& each) {
    return std::holds_alternative<UpdateWeights>(each);
  };
  if (std::ranges::none_of(taken_, is_update)) return {};
  while (num_begun_ > num_ended_) QUIRE_RETURN_IF_ERROR(end_step());
  return {};
}

// Keys and values of other weights must not be read again, so nobody may have any.
Status EngineCore::update_now(const std::vector<TensorInfo>& tensors) {
  const std::size_t num_unfinished =
      scheduler_.running().size() + scheduler_.waiting().size() + scheduler_.fetching().size();
  if (num_unfinished > 0) {
    return Status::unavailable(
        fmt::format("update_weights: {} requests run or wait", num_unfinished),
        "wait for them, or abort them: an output is made with one set of weights");
  }
  QUIRE_RETURN_IF_ERROR(executor_->update_weights(tensors));
  if (scheduler_.kv_cache().tier().on()) {
    log_info("weights were replaced: KV blocks are no longer offloaded, nor read from the files");
    tell_scheduler({.added = {}, .removed = {}, .fetched = {}, .closed = true});
  }
  reset_prefix_cache_now();
  return {};
}

void EngineCore::apply(const Add& add) {
  const AddRequest& request = add.request;
  const Instant now = clock_.now();
  Status status = scheduler_.add(request, now);
  if (listener_) listener_->added(request, now, status);
  if (!status.ok()) return outputs_.push_failed(request.request_id, std::move(status));
  if (add.constraint.grammar != nullptr) constraints_.add(request, add.constraint);
  if (!speculator_ || request.pooling != Pooling::kNone) return;
  // A processor is called once a token, and beams follow no guess.
  if (request.sampling_params->logits_processor != nullptr) return;
  if (request.sampling_params->is_beam_search()) return;
  const auto num_outputs = static_cast<std::size_t>(request.sampling_params->n);
  const auto& [drafts, reports] = add.speculation;
  for (std::size_t i = 0; i < num_outputs; ++i) {
    speculator_->begin(
        request.request_id + static_cast<RequestId>(i), drafts,
        reports ? std::shared_ptr<SpeculationReport>(reports, &(*reports)[i]) : nullptr);
  }
}

std::unique_ptr<const Request> EngineCore::abort_now(RequestId request_id) {
  const Instant now = clock_.now();
  auto request = scheduler_.abort(request_id, now);
  if (listener_) listener_->aborted(request_id, now, request != nullptr);
  if (speculator_ && request) speculator_->end(request->id(), request->output_token_ids());
  constraints_.remove(request_id);
  return request;
}

}  // namespace quire
