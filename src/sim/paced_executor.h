// A simulated executor whose steps take the time that they claim to take: an engine over it serves
// made-up tokens at a known speed, which is how a server, or a client, is tested and measured
// without a model.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>

#include "exec/executor.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"

namespace quire {

class PacedExecutor final : public Executor {
 public:
  explicit PacedExecutor(const SimulatedExecutorConfig& config) : executor_(config, clock_) {}

  Status submit(const SchedulerOutput& plan) override;
  Status sample(std::span<const TokenMask> masks) override { return executor_.sample(masks); }
  Status collect(ModelRunnerOutput& result) override;
  std::uint64_t progress() const override { return progress_; }

 private:
  using Clock = std::chrono::steady_clock;

  VirtualClock clock_;
  SimulatedExecutor executor_;
  std::deque<Clock::time_point> submitted_;  // of the steps in flight, the oldest first
  Clock::time_point end_{};                  // of the last step collected
  std::atomic<std::uint64_t> progress_ = 0;
};

}  // namespace quire
