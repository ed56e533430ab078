// The plan of one model on one device or several of a kind, and how it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/plan/planned_model.h"
#include "base/json.h"
#include "base/status.h"
#include "plan/capacity.h"

namespace quire {

// What is planned, beside the model.
struct PlanSettings {
  std::string kv_dtype = "auto";  // auto, fp32, bf16, fp8 or int8
  CapacityOptions capacity;
  std::int64_t input_len = 1024;
  std::int64_t output_len = 256;
  std::optional<double> usd_per_hour;  // of a device, in place of the catalogue's
  double network = kNetworkBandwidth;  // between stages on different machines: PipelineCost's
};

// How a copy of the model is spread over devices: each layer over `tp`, layers over `pp` stages of
// as many. 0 where that is to be found.
struct DeviceLayout {
  int tp = 1;
  int pp = 1;

  int devices() const { return tp * pp; }
};

struct DevicePlan {
  PlanDevice device;
  DeviceLayout layout;
  std::vector<ModelFootprint> stages;  // of one of the devices of each
  std::size_t fullest = 0;             // the stage that has room for the fewest sequences
  DeviceFit fit;                       // of that stage
  double kv_tokens = 0;                // that all stages have room for, in blocks of no size
  PipelineCost cost;
  std::optional<double> usd_per_hour;  // of all devices

  // Sequences of the workload that decode at once at most: as many as fit, at most max_num_seqs.
  std::int64_t most = 0;

  const ModelFootprint& footprint() const { return stages[fullest]; }
};

// Bytes of a number in the KV cache; auto is 2, or 4 where weights have 32 bits.
Result<double> kv_number_bytes(const std::string& kv_dtype, const PlannedModel& model);

// kInvalidArgument where `tp` is more than the device has links for or does not divide the model;
// stage_footprints()'s errors. A model that does not fit is no error here: plan.fit says so.
Result<DevicePlan> make_device_plan(const PlannedModel& model, const PlanDevice& device,
                                    DeviceLayout layout, const PlanSettings& settings);

// With the fewest devices that hold the model and a sequence, stages only where --tp alone does not
// do; those of the most where none does. What `wanted` says stays.
Result<DevicePlan> smallest_device_plan(const PlannedModel& model, const PlanDevice& device,
                                        DeviceLayout wanted, const PlanSettings& settings);

// The layouts to look at: what `wanted` says; else for tp powers of two that divide the model, up
// to what the device may be split over, and for pp 1, 2, 4 and 8. By tp, then by pp.
std::vector<DeviceLayout> fitting_layouts(const PlannedModel& model, const PlanDevice& device,
                                          DeviceLayout wanted);

// kResourceExhausted saying what is too large and what to change.
Status check_fit(const PlannedModel& model, const DevicePlan& plan, const PlanSettings& settings);

// Batches that a report lists: powers of two, and the most.
std::vector<std::int64_t> plan_batches(std::int64_t most);

// USD for a million output tokens, their prompts paid for too; nullopt without a price.
std::optional<double> usd_per_million(const DevicePlan& plan, const PlanSettings& settings,
                                      double batch);

}  // namespace quire
