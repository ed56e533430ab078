// An engine put together from its parts. Engine::create does it with a model that it loads; tests,
// benchmarks and `quire serve --simulate-step-ms` with an executor of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/scheduler.h"
#include "engine/api.h"
#include "engine/generation_defaults.h"
#include "engine/model_bundle.h"
#include "engine/scheduler_listener.h"
#include "engine/step_pacer.h"
#include "exec/executor.h"
#include "kernels/device.h"

namespace quire {

struct EngineParts {
  TextBundle text;
  EngineInfo info;
  SchedulerConfig scheduler;  // validate() must have passed
  GenerationDefaults generation_defaults;
  std::int64_t max_logprobs = 20;
  std::uint64_t seed = 0;
  std::function<void(const StepRecord&)> stepped;  // may be empty
  EngineProfile* profile = nullptr;                // EngineObserver::profile
  std::unique_ptr<Executor> executor;
  std::unique_ptr<SchedulerListener> listener = nullptr;  // may be null
  std::optional<StepPacer> pacer = std::nullopt;          // none: steps are not limited
};

Result<std::unique_ptr<Engine>> assemble_engine(EngineParts parts);

// Makes the device that an engine computes on, with so many threads of the host's for it.
using MakeDevice = std::function<Result<std::unique_ptr<Device>>(int num_threads)>;

// Engine::create() on a device of the caller's.
Result<std::unique_ptr<Engine>> create_engine(const EngineArgs& args,
                                              const EngineObserver& observer,
                                              const MakeDevice& make_device);

// The scheduler's settings that follow from an engine's. kInvalidArgument for a value that there is
// not, kConfig for settings that contradict each other.
Result<SchedulerConfig> scheduler_config(const EngineArgs& args, std::int32_t max_model_len,
                                         std::int32_t num_blocks, std::vector<KvGroup> kv_groups,
                                         const Tokenizer& tokenizer);

// What holds the time of a step to EngineArgs::max_step_ms; none where that is zero.
// kInvalidArgument where it is out of range.
Result<std::optional<StepPacer>> step_pacer(const EngineArgs& args);

// The event log that EngineArgs ask for; null where they ask for none. Errors as EventLog::open.
Result<std::unique_ptr<SchedulerListener>> open_event_log(const EngineArgs& args);

}  // namespace quire
