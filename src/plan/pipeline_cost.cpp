#include "plan/pipeline_cost.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {
namespace {

Status check_stage(const DecoderSpec& spec, LayerRange range, int pp) {
  for (std::int64_t i = range.first; i < range.end; ++i) {
    const std::int32_t source = spec.layers[static_cast<std::size_t>(i)].kv_layer();
    if (source != kOwnKeys && source < range.first) {
      return Status::unimplemented(
          fmt::format("--pp {}: layer {} reads the keys and values of layer {}, which would be in "
                      "an earlier stage",
                      pp, i, source),
          "use fewer stages, or --tp");
    }
  }
  return {};
}

}  // namespace

std::vector<LayerRange> stage_layers(std::int64_t num_layers, int pp) {
  const std::int64_t left_over = num_layers % pp;
  std::vector<LayerRange> ranges;
  std::int64_t first = 0;
  for (int stage = 0; stage < pp; ++stage) {
    const bool one_more = stage < pp - 1 && stage >= pp - 1 - left_over;
    const std::int64_t end = first + num_layers / pp + (one_more ? 1 : 0);
    ranges.push_back({.first = first, .end = end});
    first = end;
  }
  return ranges;
}

Result<std::vector<ModelFootprint>> stage_footprints(const DecoderSpec& spec,
                                                     const FootprintOptions& options, int pp) {
  if (pp > spec.num_layers()) {
    return Status::invalid_argument(
        fmt::format("--pp {}: the model has {} layers", pp, spec.num_layers()),
        fmt::format("use 1 to {}", spec.num_layers()));
  }
  if (pp > 1 && (spec.altup.num_streams != 0 || spec.per_layer.width != 0)) {
    return Status::unimplemented(
        fmt::format("--pp {}: layers of this model read more than the hidden states of the layer "
                    "before them",
                    pp),
        "use --pp 1");
  }
  std::vector<ModelFootprint> stages;
  for (const LayerRange& range : stage_layers(spec.num_layers(), pp)) {
    QUIRE_RETURN_IF_ERROR(check_stage(spec, range, pp));
    FootprintOptions of_stage = options;
    of_stage.stage = range;
    QUIRE_ASSIGN_OR_RETURN(ModelFootprint stage, model_footprint(spec, of_stage));
    stages.push_back(std::move(stage));
  }
  return stages;
}

PipelineCost::PipelineCost(const std::vector<ModelFootprint>& stages, const PlanDevice& device,
                           Arithmetic arithmetic, int tp, double network)
    : hop_bytes_per_row_(2.0 * static_cast<double>(stages.front().hidden_size) / tp),
      efficiencies_(device.efficiencies) {
  for (const ModelFootprint& stage : stages) stages_.emplace_back(stage, device, arithmetic, tp);
  // A link sends half of what it is said to carry.
  const bool linked = tp * std::ssize(stages) <= device.max_tp;
  hop_bandwidth_ = linked ? device.link_bandwidth / 2 : network;
}

double PipelineCost::expected_hop_s(double rows) const {
  return rows * hop_bytes_per_row_ / hop_bandwidth_ / efficiencies_.link +
         efficiencies_.reduce_latency_s;
}

StepTime PipelineCost::pass(const std::vector<StepTime>& times, double rows,
                            double& slowest_ideal) const {
  const auto hops = static_cast<double>(times.size() - 1);
  StepTime all;
  if (hops > 0) {
    all.link_s = all.ideal_s = hops * rows * hop_bytes_per_row_ / hop_bandwidth_;
    all.expected_s = hops * expected_hop_s(rows);
  }
  slowest_ideal = 0;
  for (const StepTime& time : times) {
    all.flops += time.flops;
    all.bytes += time.bytes;
    all.compute_s += time.compute_s;
    all.memory_s += time.memory_s;
    all.link_s += time.link_s;
    all.ideal_s += time.ideal_s;
    all.expected_s += time.expected_s;
    all.stage_s = std::max(all.stage_s, time.expected_s);
    slowest_ideal = std::max(slowest_ideal, time.ideal_s);
  }
  all.bound = mostly_bound_by(all);
  return all;
}

StepTime PipelineCost::prefill(double tokens) const {
  std::vector<StepTime> times;
  for (const CostModel& stage : stages_) times.push_back(stage.prefill(tokens));
  double slowest_ideal = 0;
  return pass(times, tokens, slowest_ideal);
}

StepTime PipelineCost::decode(double sequences, double context) const {
  const double steps = std::clamp(sequences, 1.0, static_cast<double>(stages_.size()));
  std::vector<StepTime> times;
  for (const CostModel& stage : stages_) times.push_back(stage.decode(sequences / steps, context));
  double slowest_ideal = 0;
  StepTime all = pass(times, sequences / steps, slowest_ideal);
  all.flops *= steps;
  all.bytes *= steps;
  all.ideal_s = std::max(all.ideal_s, steps * slowest_ideal);
  all.expected_s = std::max(all.expected_s, steps * all.stage_s);
  return all;
}

}  // namespace quire
