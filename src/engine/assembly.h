// An engine put together from its parts. Engine::create does it with a model that it loads; tests,
// benchmarks and `quire serve --simulate-step-ms` with an executor of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/scheduler.h"
#include "draft/drafter.h"
#include "draft/speculative_config.h"
#include "engine/api.h"
#include "engine/compute_device.h"
#include "engine/scheduler_listener.h"
#include "engine/step_pacer.h"
#include "exec/executor.h"
#include "load/generation_defaults.h"
#include "load/model_bundle.h"
#include "tensor/dtype.h"

namespace quire {

struct EngineParts {
  TextBundle text;
  EngineInfo info;
  SchedulerConfig scheduler;  // validate() must have passed
  GenerationDefaults generation_defaults;
  std::int64_t max_logprobs = 20;
  bool jump_forward = true;
  std::uint64_t seed = 0;
  std::function<void(const StepRecord&)> stepped;  // may be empty
  EngineProfile* profile = nullptr;                // EngineObserver::profile
  std::unique_ptr<Executor> executor;
  std::unique_ptr<SchedulerListener> listener = nullptr;  // may be null
  std::optional<StepPacer> pacer = std::nullopt;          // none: nothing is measured
  std::optional<SpeculativeConfig> speculation = std::nullopt;
  // Of methods that compute, and only of them; it may do so on the executor's device.
  std::unique_ptr<Drafter> draft_model = nullptr;
};

Result<std::unique_ptr<Engine>> assemble_engine(EngineParts parts);

// Engine::create() on a device of the caller's.
Result<std::unique_ptr<Engine>> create_engine(const EngineArgs& args,
                                              const EngineObserver& observer,
                                              const ComputeDevice& device);

// All parts that follow from the settings, the model and two sizes; those of `bundle` that are
// about text move there. What is left to fill in: the executor, and of the info what depends on it.
// Begins the event log. kInvalidArgument for a setting that has no such value or is out of range,
// kConfig for settings that contradict each other, and the errors of EventLog::open.
Result<EngineParts> engine_parts(const EngineArgs& args, ModelBundle& bundle,
                                 std::int32_t max_model_len, std::int32_t num_blocks,
                                 DType kv_cache_dtype);

}  // namespace quire
