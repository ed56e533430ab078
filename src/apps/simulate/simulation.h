// One simulated run as `quire simulate` sets it up: a model on devices, servers, traffic, and what
// comes out in numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/charts/request_charts.h"
#include "apps/plan/device_plan.h"
#include "apps/simulate/settings.h"
#include "apps/statistics.h"
#include "base/json.h"
#include "base/status.h"
#include "sim/fleet.h"

namespace quire {

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
  double hit_rate = 0;      // of prompt tokens, those found in the prefix cache, or in files
  double fetched_rate = 0;  // of these, the ones from files
  std::int64_t num_kv_fetches = 0;
  std::int64_t blocks_fetched = 0;
  std::int64_t blocks_offloaded = 0;
  double fetch_s = 0;  // mean time of a fetch
  double longest_step_s = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_preemptions_by_swap = 0;  // of these, with blocks that go to files
  std::int64_t tokens_recomputed = 0;
  std::int64_t tokens_discarded = 0;
  std::int64_t draft_tokens = 0;
  std::int64_t draft_tokens_accepted = 0;
  std::vector<std::int64_t> server_requests;
  std::optional<double> usd;  // of all devices over the whole time
  std::optional<double> usd_per_million_output;
  // Of a recorded run with other settings: of the time of its steps, those of kinds that the run
  // had.
  std::optional<double> recorded_step_share;
};

struct SimulationOutcome {
  SimulationSummary summary;
  std::vector<RequestTimes> requests;  // in order of their ends
};

// A dynamic batch that is simulated waits so long for more requests.
inline constexpr Duration kSimulatedBatchDelay = std::chrono::milliseconds(100);

// How many servers, what lies before them, drafts and limits of steps; not what one server is.
// kInvalidArgument for drafts of which it is not said how many are right.
Status set_servers(const SimulationSettings& settings, FleetConfig& fleet);

// Runs `fleet`, as `settings` have made it. `usd_per_hour`: of a server.
Result<SimulationOutcome> run_simulation(const FleetConfig& fleet,
                                         const SimulationSettings& settings,
                                         std::optional<double> usd_per_hour,
                                         const Traffic& traffic);
// The same of a run that is over.
SimulationOutcome outcome_of(const FleetResult& result, const FleetConfig& fleet,
                             const SimulationSettings& settings,
                             std::optional<double> usd_per_hour);

// `plan_settings` has the types and the share of memory. Errors: the model's and the device's,
// those of simulate_fleet(). `progress`: FleetConfig's.
Result<SimulationOutcome> simulate(const PlannedModel& model, const PlanDevice& device,
                                   const PlanSettings& plan_settings,
                                   const SimulationSettings& settings, const Traffic& traffic,
                                   const std::function<void(std::size_t)>& progress);

json::object to_json(const SimulationSummary& summary);
std::string summary_text(const SimulationSummary& summary);

}  // namespace quire
