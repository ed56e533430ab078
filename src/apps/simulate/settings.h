// What `quire simulate` varies, by the names of its flags.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/batch_former.h"
#include "core/step_pace.h"
#include "plan/pipeline_cost.h"
#include "sim/recorded_drafts.h"
#include "sim/step_times.h"

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
  double waiting_served_ratio = 0;  // as EngineArgs::admission has them
  std::int64_t max_waiting_tokens = AdmissionPace{}.max_waiting_tokens;
  std::string kv = "paged";
  int replicas = 1;
  int prefill_replicas = 0;  // of these, those that compute prompts alone
  std::string router = "round-robin";
  // From a server or a stage to another, in bytes a second of each device.
  double transfer_bandwidth = kNetworkBandwidth;
  std::int64_t num_speculative_tokens = 0;
  // Of the draft at each place, how often it is right where those before it were; the last counts
  // for those behind it, too.
  std::vector<double> acceptance = {};
  double kv_offloading_size = 0;  // GiB of a server's files of KV blocks
  double kv_offload_gbs = 2;      // at which they are read
  // Of an event log's server, with num_speculative_tokens of its own; in place of `acceptance`.
  std::shared_ptr<const RecordedDrafts> recorded_drafts = nullptr;
  std::optional<double> draft_s;  // to make a draft for each sequence of a step
  std::optional<double> ttft_s;   // what a request must keep to be a good one
  std::optional<double> tpot_s;
  std::optional<StepTimes> step_times;    // measured; else the device's roofline
  std::optional<double> max_step_ms = 0;  // as EngineArgs has it
  StepPace pace = {};                     // that was recorded, with a limit; no other counts then
};

inline constexpr std::string_view kMaxStepSetting = "max-step-ms";

AdmissionPace admission_of(const SimulationSettings& settings);

// What a sweep may change, by the flag's name; whole numbers or names, as flags accept them.
// kInvalidArgument naming what is wrong.
Status set_setting(SimulationSettings& settings, const std::string& name, const std::string& value);
std::vector<std::string> setting_names();
std::vector<std::string> setting_choices(std::string_view name);  // of one that accepts names

// Every setting with each of the values that sweeps give it, "name=value,value", and what they set.
// kInvalidArgument naming what is wrong.
struct SweptSettings {
  std::vector<std::string> labels;  // "name=value"
  SimulationSettings settings;
};
Result<std::vector<SweptSettings>> sweep_settings(const std::vector<std::string>& sweeps,
                                                  const SimulationSettings& settings);

}  // namespace quire
