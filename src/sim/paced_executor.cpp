#include "sim/paced_executor.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace quire {

// A long step sleeps in pieces and shows progress after each, as a long step of a model does.
Status PacedExecutor::execute(const SchedulerOutput& plan, ModelRunnerOutput& result) {
  constexpr std::chrono::milliseconds kPiece(100);
  const auto start = std::chrono::steady_clock::now();
  const Instant before = clock_.now();
  QUIRE_RETURN_IF_ERROR(executor_.execute(plan, result));
  const auto end = start + (clock_.now() - before);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_until(std::min(end, std::chrono::steady_clock::now() + kPiece));
    ++progress_;
  }
  return {};
}

}  // namespace quire
