// The file that `quire bench calibrate` writes and `quire simulate --step-cost` reads.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "sim/step_cost_fit.h"

namespace quire {

json::object step_cost_json(const StepCostFit& fit);

// kInvalidArgument naming the key for what is missing or out of range.
Result<StepCost> read_step_cost(const std::filesystem::path& path);

}  // namespace quire
