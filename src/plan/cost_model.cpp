#include "plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace quire {
namespace {

// Keys that rows at positions [first, first + count) see, all together; a row sees itself.
double keys_seen(double first, double count, std::int32_t window) {
  const auto triangle = [](double n) { return n * (n + 1) / 2; };
  if (window == 0) return triangle(first + count) - triangle(first);
  const double full = std::max(0.0, first + count - std::max(first, window - 1.0));
  const double growing = count - full;
  return triangle(first + growing) - triangle(first) + full * window;
}

}  // namespace

std::string_view bound_name(Bound bound) {
  switch (bound) {
    case Bound::kCompute:
      return "compute";
    case Bound::kMemory:
      return "memory";
    case Bound::kLink:
      return "link";
  }
  return "memory";
}

Bound mostly_bound_by(const StepTime& time) {
  if (time.link_s > std::max(time.compute_s, time.memory_s)) return Bound::kLink;
  return time.compute_s > time.memory_s ? Bound::kCompute : Bound::kMemory;
}

CostModel::CostModel(const ModelFootprint& footprint, const PlanDevice& device,
                     Arithmetic arithmetic, int tp)
    : footprint_(footprint), device_(device), tp_(tp) {
  std::tie(arithmetic_, flops_per_second_) = device.flops_of(arithmetic);
}

void CostModel::add(RooflineWork& work, double computed, double new_tokens, double sampled) const {
  work.rows += new_tokens;
  work.logits += sampled;
  for (const KeyWork& each : footprint_.attention) {
    work.attention_flops += each.flops_per_key * keys_seen(computed, new_tokens, each.window);
  }
  for (const KvFootprint& group : footprint_.kv) {
    const double earlier =
        group.window == 0 ? computed : std::min<double>(computed, group.window - 1.0);
    work.kv_bytes += group.bytes_per_token * (earlier + new_tokens) + 2 * group.state_bytes;
  }
}

StepTime CostModel::time(const RooflineWork& work) const {
  StepTime time;
  time.flops = footprint_.flops_per_row * work.rows + footprint_.flops_per_logits * work.logits +
               work.attention_flops;
  // Rows choose experts as if each were as likely: so many of them are read.
  const double experts_read = 1 - std::pow(1 - footprint_.expert_share, work.rows);
  time.bytes = footprint_.dense_bytes - (work.logits > 0 ? 0 : footprint_.output_bytes) +
               footprint_.expert_bytes * experts_read + work.kv_bytes;
  time.compute_s = time.flops / flops_per_second_;
  time.memory_s = time.bytes / device_.bandwidth;
  const Efficiencies& share = device_.efficiencies;
  double reduces = 0;
  if (tp_ > 1) {
    // Two sums of hidden states in 16 bits over all devices in each layer, as rings; a link sends
    // half of what it is said to carry.
    reduces = 2.0 * static_cast<double>(footprint_.num_layers);
    const double bytes = reduces * work.rows * static_cast<double>(footprint_.hidden_size) * 2;
    time.link_s = bytes * 2 * (tp_ - 1) / tp_ / (device_.link_bandwidth / 2);
  }
  time.ideal_s = std::max(time.compute_s, time.memory_s) + time.link_s;
  time.expected_s = std::max(time.compute_s / share.compute, time.memory_s / share.memory) +
                    time.link_s / share.link + reduces * share.reduce_latency_s +
                    share.step_overhead_s;
  time.stage_s = time.expected_s;
  time.bound = mostly_bound_by(time);
  return time;
}

StepTime CostModel::prefill(double tokens) const {
  RooflineWork work;
  add(work, 0, tokens, 1);
  return time(work);
}

StepTime CostModel::decode(double sequences, double context) const {
  RooflineWork one;
  add(one, context, 1, 1);
  const RooflineWork all = {.rows = sequences,
                            .logits = sequences,
                            .attention_flops = sequences * one.attention_flops,
                            .kv_bytes = sequences * one.kv_bytes};
  return time(all);
}

}  // namespace quire
