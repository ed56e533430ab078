// One simulated run as `quire simulate` sets it up: a model on devices, servers, traffic, and what
// comes out in numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/charts/request_charts.h"
#include "apps/plan/device_plan.h"
#include "apps/statistics.h"
#include "base/json.h"
#include "base/status.h"
#include "core/step_pace.h"
#include "sim/fleet.h"

namespace quire {

struct SimulationSettings {
  int tp = 1;
  int pp = 1;
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 2048;
  std::int64_t block_size = 16;
  std::optional<std::int64_t> kv_tokens;  // of a server's KV cache; else what the memory leaves
  bool prefix_caching = true;
  bool chunked_prefill = true;
  std::string policy = "fcfs";
  std::string batching = "continuous";
  std::string kv = "paged";
  int replicas = 1;
  int prefill_replicas = 0;  // of these, those that compute prompts alone
  std::string router = "round-robin";
  // From a server or a stage to another, in bytes a second of each device.
  double transfer_bandwidth = 50e9;
  std::int64_t num_speculative_tokens = 0;
  // Of the draft at each place, how often it is right where those before it were; the last counts
  // for those behind it, too.
  std::vector<double> acceptance = {};
  std::optional<double> draft_s;  // to make a draft for each sequence of a step
  std::optional<double> ttft_s;   // what a request must keep to be a good one
  std::optional<double> tpot_s;
  std::optional<StepCost> step_cost;  // measured; else the device's roofline
};

// What a sweep may change, by the flag's name; whole numbers or names, as flags take them.
// kInvalidArgument naming what is wrong.
Status set_setting(SimulationSettings& settings, const std::string& name, const std::string& value);
std::vector<std::string> setting_names();
std::vector<std::string> setting_choices(std::string_view name);  // of one that takes names

struct SimulationSummary {
  std::int64_t num_requests = 0;  // that ended
  std::int64_t num_rejected = 0;
  std::int64_t kv_tokens = 0;  // that a server's cache holds
  double duration_s = 0;
  double requests_per_s = 0;
  double input_tokens_per_s = 0;
  double output_tokens_per_s = 0;
  Statistics ttft_s;
  Statistics tpot_s;
  Statistics latency_s;
  double good_share = 1;  // of the requests, those that keep both limits
  double goodput = 0;     // of these a second
  double busy = 0;        // share of the time that servers compute
  double occupancy = 0;   // of max_num_seqs, while they do
  double kv_used = 0;
  double kv_waste = 0;
  double hit_rate = 0;  // of prompt tokens, those found in the prefix cache
  double longest_step_s = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t tokens_recomputed = 0;
  std::int64_t tokens_discarded = 0;
  std::int64_t draft_tokens = 0;
  std::int64_t draft_tokens_accepted = 0;
  std::vector<std::int64_t> server_requests;
  std::optional<double> usd;  // of all devices over the whole time
  std::optional<double> usd_per_million_output;
};

struct SimulationOutcome {
  SimulationSummary summary;
  std::vector<RequestTimes> requests;  // in order of their ends
};

// `plan_settings` has the types and the share of memory. Errors: the model's and the device's,
// those of simulate_fleet(). `progress`: FleetConfig's.
Result<SimulationOutcome> simulate(const PlannedModel& model, const PlanDevice& device,
                                   const PlanSettings& plan_settings,
                                   const SimulationSettings& settings, const Traffic& traffic,
                                   const std::function<void(std::size_t)>& progress);

json::object to_json(const SimulationSummary& summary);
std::string summary_text(const SimulationSummary& summary);

}  // namespace quire
