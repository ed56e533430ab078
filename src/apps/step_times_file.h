// The file that `quire bench calibrate` writes and `quire simulate --step-cost` reads.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "base/status.h"
#include "sim/step_times.h"

namespace quire {

json::object step_times_json(const StepTimes& times);

// kInvalidArgument naming the key for what is missing or out of range.
Result<StepTimes> read_step_times(const std::filesystem::path& path);

}  // namespace quire
