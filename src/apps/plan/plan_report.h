// What `quire plan` prints: of one device, of all, of a wanted load.
#pragma once

#include <string>
#include <vector>

#include "apps/plan/device_plan.h"
#include "base/json.h"

namespace quire {

// Of the model alone: sizes, types, KV bytes by group. `whole` is its footprint on one device.
json::object model_json(const PlannedModel& model, const ModelFootprint& whole,
                        const PlanSettings& settings);

// The devices of a copy: a list of {"count", "footprint"}, stages with the same numbers as one.
json::array stages_json(const std::vector<ModelFootprint>& stages);

json::object device_plan_json(const DevicePlan& plan, const PlanSettings& settings);

std::string model_text(const PlannedModel& model, const ModelFootprint& whole,
                       const PlanSettings& settings);
std::string device_plan_text(const DevicePlan& plan, const PlanSettings& settings);

// A line of each device, with the fewest that the model fits on.
std::string overview_text(const std::vector<DevicePlan>& plans, const PlanSettings& settings);

std::string device_list_text(const std::vector<PlanDevice>& devices);

}  // namespace quire
