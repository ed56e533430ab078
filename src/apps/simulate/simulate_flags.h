// The flags of `quire simulate`.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/plan/device_plan.h"
#include "apps/plan/plan_flags.h"
#include "apps/simulate/settings.h"
#include "base/status.h"
#include "sim/traffic.h"

namespace quire {

struct SimulateFlags {
  PlannedModelFlags model;
  std::string device = "h100";
  std::string device_file;
  PlanSettings plan;
  SimulationSettings settings;
  TrafficConfig traffic = {.seed = 0, .num_requests = 1000, .qps = 4};
  std::string spread = "uniform";
  std::string trace;
  std::string event_log;
  std::string step_cost;
  std::vector<std::string> sweeps;  // "name=value,value"
  std::string html;
  bool json = false;

  std::vector<std::string> changes;  // settings that the command line names, "name=value"
};

void add_simulate_flags(CLI::App& app, SimulateFlags& flags);

// After parsing: which settings the command line names.
std::vector<std::string> named_settings(const CLI::App& app);
// Of the flags that say what a recorded run has had already, or needs a MODEL: the first that the
// command line names, which is refused. `app` was parsed.
Status check_flags_of_what_if(const CLI::App& app);

}  // namespace quire
