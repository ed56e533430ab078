// From what the user asked for and what the model is, to the numbers that an engine runs with.
// Reads headers only: nothing is loaded yet.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/api.h"
#include "exec/model_runner.h"
#include "models/spec.h"
#include "weights/weight_source.h"

namespace quire {

struct EngineSizes {
  std::int32_t max_model_len = 0;
  ModelRunnerConfig runner;
};

// Bytes of memory that this process may still take: what the system has available, or what the
// cgroup's limit leaves, whichever is less.
std::uint64_t available_memory_bytes();

// kConfig for settings that contradict each other, kInvalidArgument for one out of range,
// kResourceExhausted with numbers and a remedy where the memory does not suffice.
Result<EngineSizes> size_engine(const EngineArgs& args, const DecoderSpec& spec,
                                const WeightSource& weights, std::uint64_t available_memory);

}  // namespace quire
