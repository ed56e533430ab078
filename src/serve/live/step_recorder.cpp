#include "serve/live/step_recorder.h"

#include <utility>

namespace quire {

void StepRecorder::record(const StepRecord& step) {
  if (!watched_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  kept_.steps.push_back({.step_id = step.step_id,
                         .start = step.start,
                         .end = step.end,
                         .shares = {step.shares.begin(), step.shares.end()}});
  num_rows_ += step.shares.size();
  while (kept_.steps.size() > kMaxSteps || (num_rows_ > kMaxRows && kept_.steps.size() > 1)) {
    num_rows_ -= kept_.steps.front().shares.size();
    kept_.steps.pop_front();
    ++kept_.num_dropped;
  }
}

void StepRecorder::watch(bool on) {
  watched_.store(on, std::memory_order_relaxed);
  (void)take();
}

StepRecorder::Taken StepRecorder::take() {
  const std::lock_guard lock(mutex_);
  num_rows_ = 0;
  return std::exchange(kept_, {});
}

}  // namespace quire
