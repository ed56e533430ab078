// Runs steps in this process, on a thread of its own: the one that drives the device, so that
// whoever plans is free while the model computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/span_recorder.h"
#include "exec/executor.h"
#include "exec/model_runner.h"
#include "kernels/device.h"
#include "models/decoder_model.h"
#include "models/weight_updater.h"

namespace quire {

class InProcessExecutor final : public Executor {
 public:
  // Owns what a step needs: the devices, weights and the runner, which refers to both. At most
  // `max_steps_in_flight` (>= 1) steps between submit() and collect(). The executor's thread
  // records each step, with all that the runner records inside it, in `spans`, and what a device
  // of its own does in `on_device`; both may be null. `updater`: of these devices, for
  // update_weights().
  InProcessExecutor(std::vector<std::unique_ptr<Device>> devices, std::unique_ptr<Model> model,
                    std::unique_ptr<ModelRunner> runner, std::int32_t max_steps_in_flight,
                    SpanRecorder* spans, SpanRecorder* on_device,
                    std::unique_ptr<WeightUpdater> updater);
  // Ends without the steps that have not been collected.
  ~InProcessExecutor() override;

  Status submit(const SchedulerOutput& step) override;
  Status sample(std::span<const TokenMask> masks) override;
  Status collect(ModelRunnerOutput& result) override;
  Status update_weights(const std::vector<TensorInfo>& tensors) override;
  bool take_tier_report(TierReport& report) override;
  void on_tier_report(std::function<void()> tell) override;
  TierStats tier_stats() const override;
  std::int64_t keep_blocks(std::span<const BlockStore> blocks, Duration limit) override;
  std::uint64_t progress() const override;

 private:
  struct Step {
    const SchedulerOutput* plan = nullptr;
    std::span<const TokenMask> masks;
    ModelRunnerOutput result;
    Status status;
  };
  Step& step(std::uint32_t number) { return steps_[number % steps_.size()]; }
  void run();
  bool compute(Step& step, std::uint32_t number);
  bool wait_for(const std::atomic<std::uint32_t>& count, std::uint32_t number);

  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<WeightUpdater> updater_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
  SpanRecorder* spans_;
  std::vector<Step> steps_;
  // Steps that have come so far, may sample, and are done. The caller's thread writes the first
  // two, the executor's the third.
  std::atomic<std::uint32_t> num_submitted_ = 0;
  std::atomic<std::uint32_t> num_sampling_ = 0;
  std::atomic<std::uint32_t> num_done_ = 0;
  std::atomic<bool> stopping_ = false;
  std::uint32_t num_collected_ = 0;  // the caller's
  std::thread thread_;
};

}  // namespace quire
