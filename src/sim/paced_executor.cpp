#include "sim/paced_executor.h"

#include <algorithm>
#include <thread>

namespace quire {

Status PacedExecutor::submit(const SchedulerOutput& plan) {
  submitted_.push_back(Clock::now());
  return executor_.submit(plan);
}

// Steps take their time one after the other. A long one sleeps in pieces and shows progress after
// each, as a long step of a model does.
Status PacedExecutor::collect(ModelRunnerOutput& result) {
  constexpr std::chrono::milliseconds kPiece(100);
  const Instant before = clock_.now();
  QUIRE_RETURN_IF_ERROR(executor_.collect(result));
  end_ = std::max(end_, submitted_.front()) + (clock_.now() - before);
  submitted_.pop_front();
  while (Clock::now() < end_) {
    std::this_thread::sleep_until(std::min(end_, Clock::now() + kPiece));
    ++progress_;
  }
  return {};
}

}  // namespace quire
