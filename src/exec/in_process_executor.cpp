#include "exec/in_process_executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/thread.h"
#include "tensor/spin.h"

namespace quire {
namespace {

// Long enough to bridge what happens between two steps, short enough that an idle engine costs
// nothing.
constexpr std::chrono::microseconds kStepSpin{200};

// Longer than most steps of a GPU in which nobody reads a prompt.
constexpr std::chrono::microseconds kResultSpin{10'000};

constexpr Stage kComputeStage = {StageKind::kWhole, "compute"};
constexpr Stage kMasksStage = {StageKind::kWait, "wait for masks"};

}  // namespace

InProcessExecutor::InProcessExecutor(std::vector<std::unique_ptr<Device>> devices,
                                     std::unique_ptr<Model> model,
                                     std::unique_ptr<ModelRunner> runner,
                                     std::int32_t max_steps_in_flight, SpanRecorder* spans,
                                     SpanRecorder* on_device,
                                     std::unique_ptr<WeightUpdater> updater)
    : devices_(std::move(devices)),
      updater_(std::move(updater)),
      model_(std::move(model)),
      runner_(std::move(runner)),
      spans_(spans),
      steps_(static_cast<std::size_t>(max_steps_in_flight)),
      thread_(new_thread("quire-executor", [this] { run(); })) {
  if (spans_ != nullptr) runner_->record_spans(*spans_, *on_device);
}

InProcessExecutor::~InProcessExecutor() {
  stopping_ = true;
  // Whatever it waits for: there is nothing more to come.
  num_submitted_.fetch_add(1);
  num_submitted_.notify_one();
  num_sampling_.fetch_add(1);
  num_sampling_.notify_one();
  thread_.join();
}

std::uint64_t InProcessExecutor::progress() const {
  std::uint64_t sum = 0;
  for (const auto& device : devices_) sum += device->progress();
  return sum;
}

Status InProcessExecutor::submit(const SchedulerOutput& plan) {
  const std::uint32_t number = num_submitted_.load(std::memory_order_relaxed);
  if (number - num_collected_ == steps_.size()) {
    return Status::internal(
        fmt::format("step {} is submitted while {} are in flight", plan.step_id, steps_.size()));
  }
  step(number).plan = &plan;
  num_submitted_.store(number + 1);
  num_submitted_.notify_one();
  return {};
}

Status InProcessExecutor::sample(std::span<const TokenMask> masks) {
  const std::uint32_t number = num_sampling_.load(std::memory_order_relaxed);
  if (number == num_submitted_.load(std::memory_order_relaxed)) {
    return Status::internal("there is no step that may sample");
  }
  step(number).masks = masks;
  num_sampling_.store(number + 1);
  num_sampling_.notify_one();
  return {};
}

// Sleeps at once where CPUs compute the step: they are needed for that, not for polling. Another
// device leaves them idle, and a thread that sleeps is back 30 to 50 us late, with cold caches.
Status InProcessExecutor::collect(ModelRunnerOutput& result) {
  if (num_collected_ == num_sampling_.load(std::memory_order_relaxed)) {
    return Status::internal("there is no step whose result could come");
  }
  if (std::ranges::none_of(devices_, [](const auto& each) { return each->kind() == "cpu"; })) {
    spin_until([&] { return num_done_.load() != num_collected_; }, kResultSpin);
  }
  for (std::uint32_t done = num_done_; done == num_collected_; done = num_done_) {
    num_done_.wait(done);
  }
  Step& collected = step(num_collected_++);
  std::swap(result, collected.result);
  return std::move(collected.status);
}

// The executor's thread waits for a step meanwhile, and finds the model as it is then.
Status InProcessExecutor::update_weights(const std::vector<TensorInfo>& tensors) {
  if (num_collected_ != num_submitted_.load(std::memory_order_relaxed)) {
    return Status::internal("weights are replaced while a step is in flight");
  }
  QUIRE_ASSIGN_OR_RETURN(auto updated, updater_->update(*model_, tensors));
  *model_ = std::move(*updated);
  runner_->model_changed();
  return {};
}

bool InProcessExecutor::take_tier_report(TierReport& report) {
  KvOffloader* const offloader = runner_->offloader();
  return offloader != nullptr ? offloader->take_report(report) : Executor::take_tier_report(report);
}

void InProcessExecutor::on_tier_report(std::function<void()> tell) {
  if (KvOffloader* const offloader = runner_->offloader()) offloader->on_report(std::move(tell));
}

TierStats InProcessExecutor::tier_stats() const {
  const KvOffloader* const offloader = runner_->offloader();
  return offloader != nullptr ? offloader->stats() : TierStats();
}

std::int64_t InProcessExecutor::keep_blocks(std::span<const BlockStore> blocks, Duration limit) {
  KvOffloader* const offloader = runner_->offloader();
  return offloader != nullptr ? offloader->keep(blocks, limit) : 0;
}

// Until `count` is beyond `number`; false: there is nothing more to come.
bool InProcessExecutor::wait_for(const std::atomic<std::uint32_t>& count, std::uint32_t number) {
  const auto ready = [&] { return count.load() != number; };
  if (!spin_until(ready, kStepSpin)) count.wait(number);
  return !stopping_;
}

void InProcessExecutor::run() {
  for (std::uint32_t number = 0; wait_for(num_submitted_, number); ++number) {
    if (!compute(step(number), number)) return;
    num_done_.store(number + 1);
    num_done_.notify_one();
  }
}

bool InProcessExecutor::compute(Step& step, std::uint32_t number) {
  const ScopedSpan span(spans_, kComputeStage);
  if (span.get() != nullptr) span.get()->id = step.plan->step_id;
  step.status = or_status([&] { return runner_->forward(*step.plan, step.result); });
  {
    const ScopedSpan wait(spans_, kMasksStage);
    if (!wait_for(num_sampling_, number)) return false;
  }
  if (step.status.ok()) {
    step.status = or_status([&] { return runner_->sample(step.masks, step.result); });
  }
  return true;
}

}  // namespace quire
