// A model in stages, devices that have a part of its layers each (pipeline parallelism: Huang et
// al. 2019, "GPipe", arXiv 1811.06965), and the time of steps that pass one stage after the other.
// A step is not faster for it; several are in different stages at once, each with a part of the
// sequences, so that the server gives as many tokens as its slowest stage lets through.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/cost_model.h"

namespace quire {

// A network of 400 Gb/s, in bytes a second of each device.
inline constexpr double kNetworkBandwidth = 50e9;

// Equal parts; the layers that are left over go to the stages before the last, which has the output
// matrix, one each (as vLLM divides them). `pp` is at most the number of layers.
std::vector<LayerRange> stage_layers(std::int64_t num_layers, int pp);

// Of each stage, in order. kInvalidArgument for more stages than layers, kUnimplemented where a
// layer needs more of an earlier stage than its hidden states; model_footprint()'s errors.
Result<std::vector<ModelFootprint>> stage_footprints(const DecoderSpec& spec,
                                                     const FootprintOptions& options, int pp);

class PipelineCost {
 public:
  // `stages`: one or more, in order, made for `tp`. Hidden states go from stage to stage over the
  // device's links, or by `network`, bytes a second of each device, where there are more devices
  // than links connect.
  PipelineCost(const std::vector<ModelFootprint>& stages, const PlanDevice& device,
               Arithmetic arithmetic, int tp, double network = kNetworkBandwidth);

  // A prompt alone, through all stages. FLOP, bytes and times are sums over these, of one device of
  // each; stage_s says how soon the next prompt can follow.
  StepTime prefill(double tokens) const;

  // A token for each of `sequences`, of which `context` tokens are computed: as many steps as there
  // are stages, or sequences if these are fewer, each with an equal part of the sequences. Its time
  // is that of one step through all stages, or that of all steps in the slowest stage where that is
  // longer. stage_s is one step's.
  StepTime decode(double sequences, double context) const;

  // What it takes until a stage has so many rows of the one before it.
  double expected_hop_s(double rows) const;

  const CostModel& stage(std::size_t index) const { return stages_[index]; }
  std::size_t num_stages() const { return stages_.size(); }

 private:
  // Sums over stages and transfers; ideal_s of the slowest stage in `slowest_ideal`.
  StepTime pass(const std::vector<StepTime>& times, double rows, double& slowest_ideal) const;

  std::vector<CostModel> stages_;
  double hop_bytes_per_row_ = 0;  // of a device
  double hop_bandwidth_ = 0;
  Efficiencies efficiencies_;
};

}  // namespace quire
