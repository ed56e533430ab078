// A simulated executor whose steps take the time that they claim to take: an engine over it serves
// made-up tokens at a known speed, which is how a server, or a client, is tested and measured
// without a model.
#pragma once

#include <atomic>
#include <cstdint>

#include "exec/executor.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"

namespace quire {

class PacedExecutor final : public Executor {
 public:
  explicit PacedExecutor(const SimulatedExecutorConfig& config) : executor_(config, clock_) {}

  Status execute(const SchedulerOutput& plan, ModelRunnerOutput& result) override;
  std::uint64_t progress() const override { return progress_; }

 private:
  VirtualClock clock_;
  SimulatedExecutor executor_;
  std::atomic<std::uint64_t> progress_ = 0;
};

}  // namespace quire
