// The cheapest devices for a wanted load.
#pragma once

#include <string>
#include <vector>

#include "apps/plan/device_plan.h"
#include "base/json.h"

namespace quire {

// A device and a way to split the model over some of it, with the copies that the load needs; or
// why it cannot carry it.
struct LoadOption {
  DevicePlan plan;
  LoadPlan load = {};
  std::string obstacle = {};                // empty where it carries the load
  std::optional<double> usd_per_hour = {};  // of all copies
};

// Layouts of the devices, the cheapest first, then those without a price, then those that cannot;
// fitting_layouts(), of which each `tp` is there with the number of stages that takes the fewest
// devices.
Result<std::vector<LoadOption>> load_options(const PlannedModel& model,
                                             const std::vector<PlanDevice>& devices,
                                             DeviceLayout wanted, const LoadTarget& target,
                                             const PlanSettings& settings);

std::string load_text(const std::vector<LoadOption>& options, const LoadTarget& target);
json::array load_json(const std::vector<LoadOption>& options, const LoadTarget& target);

}  // namespace quire
