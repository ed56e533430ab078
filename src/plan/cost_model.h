// The time of a step, before anything runs: the roofline of a device (Williams et al. 2009) with
// what a model reads and multiplies. `ideal` is what no engine can be faster than; `expected`
// divides by the device's stated efficiencies.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/device_catalog.h"
#include "plan/model_footprint.h"

namespace quire {

// What a step computes, added up over its requests; of one device.
struct RooflineWork {
  double rows = 0;             // tokens that are computed
  double logits = 0;           // rows whose logits are
  double attention_flops = 0;  // of queries with keys and values
  double kv_bytes = 0;         // of keys and values that are read and written
};

enum class Bound : std::uint8_t { kCompute, kMemory, kLink };
std::string_view bound_name(Bound bound);  // "compute", "memory", "link"

struct StepTime {
  double flops = 0;
  double bytes = 0;      // of weights, keys and values
  double compute_s = 0;  // these three as the peaks allow
  double memory_s = 0;
  double link_s = 0;
  double ideal_s = 0;            // the slower of the first two, and the third
  double expected_s = 0;         // the same with efficiencies, and the step's overhead
  double stage_s = 0;            // expected, in the slowest of a pipeline's stages
  Bound bound = Bound::kMemory;  // what ideal_s is mostly

  double intensity() const { return bytes > 0 ? flops / bytes : 0; }  // FLOP a byte
};

Bound mostly_bound_by(const StepTime& time);  // by its three times

class CostModel {
 public:
  // `tp` is what the footprint was made for.
  CostModel(const ModelFootprint& footprint, const PlanDevice& device, Arithmetic arithmetic,
            int tp);

  // `new_tokens` rows of a sequence of which `computed` tokens are computed, `sampled` of them with
  // logits.
  void add(RooflineWork& work, double computed, double new_tokens, double sampled) const;

  StepTime time(const RooflineWork& work) const;

  // A prompt of `tokens` alone in a step; a step that gives `sequences` a token each, of which
  // `context` tokens are computed.
  StepTime prefill(double tokens) const;
  StepTime decode(double sequences, double context) const;

  Arithmetic computed_in() const { return arithmetic_; }
  double flops_per_second() const { return flops_per_second_; }
  // FLOP a byte from which on a step is bound by compute.
  double ridge() const { return flops_per_second_ / device_.bandwidth; }

 private:
  ModelFootprint footprint_;
  PlanDevice device_;
  Arithmetic arithmetic_ = Arithmetic::kF32;
  double flops_per_second_ = 0;
  int tp_ = 1;
};

}  // namespace quire
