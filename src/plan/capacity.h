// What fits on a device, and what load it carries: by the cost model's step times and two formulas
// of queues, nothing simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "plan/pipeline_cost.h"

namespace quire {

struct CapacityOptions {
  double utilization = 0.9;  // of the device's memory that an engine may use
  std::int64_t block_size = 16;
  std::int64_t max_len = 0;            // of a sequence
  std::int64_t batched_tokens = 2048;  // of a step, at most
  std::int64_t max_num_seqs = 256;
};

// Bytes of one device.
struct DeviceFit {
  double budget = 0;
  double weights = 0;
  double activations = 0;
  double kv_cache = 0;         // what is left
  double kv_sequence = 0;      // of max_len tokens
  std::int64_t sequences = 0;  // of max_len tokens that fit at once; 0: not one

  bool fits() const { return sequences > 0; }
};

// Of one device of one stage.
DeviceFit fit_device(const ModelFootprint& footprint, const PlanDevice& device,
                     const CapacityOptions& options);

// A wanted load, and what its users are to see at most, on average.
struct LoadTarget {
  double qps = 0;
  std::int64_t input_len = 0;
  std::int64_t output_len = 0;
  std::optional<double> ttft_s;
  std::optional<double> tpot_s;
};

// One copy of the model under a load. Prompts take their share of the slowest stage's time, the
// rest is decoding; prompts wait for each other as in a queue of random arrivals and equal services
// (M/D/1, Pollaczek and Khinchine), and for the step that is computed when they come. The batch is
// what Little's law gives: arrivals a second times how long an answer takes.
struct OperatingPoint {
  double qps = 0;
  double batch = 0;          // sequences that decode, on average
  double prefill_share = 0;  // of the time
  double ttft_s = 0;
  double tpot_s = 0;
};

// nullopt where the load is more than a copy carries: prompts take all of the time, or more than
// `most` sequences would be at work.
std::optional<OperatingPoint> operating_point(const PipelineCost& cost, const LoadTarget& target,
                                              double qps, double most);

struct LoadPlan {
  int replicas = 0;
  double max_qps = 0;    // that one copy carries
  OperatingPoint point;  // of one of `replicas`
};

// The copies that a load needs. kResourceExhausted saying which target one request alone misses.
Result<LoadPlan> plan_load(const PipelineCost& cost, const LoadTarget& target, double most);

// Output tokens a second of a copy that always decodes `batch` sequences, with their prompts.
double output_rate(const PipelineCost& cost, double batch, double input_len, double output_len);

}  // namespace quire
