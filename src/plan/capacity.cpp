#include "plan/capacity.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr double kMostPrefillShare = 0.95;  // beyond, prompts wait for ever

bool meets(const OperatingPoint& point, const LoadTarget& target) {
  return point.ttft_s <= target.ttft_s.value_or(HUGE_VAL) &&
         point.tpot_s <= target.tpot_s.value_or(HUGE_VAL);
}

double mean_context(const LoadTarget& target) {
  return static_cast<double>(target.input_len) + static_cast<double>(target.output_len) / 2;
}

}  // namespace

DeviceFit fit_device(const ModelFootprint& footprint, const PlanDevice& device,
                     const CapacityOptions& options) {
  DeviceFit fit;
  fit.budget = device.memory_bytes * options.utilization;
  fit.weights = footprint.weight_bytes;
  fit.activations = footprint.activation_bytes(options.batched_tokens, options.max_num_seqs);
  fit.kv_cache = std::max(0.0, fit.budget - fit.weights - fit.activations);
  fit.kv_sequence = footprint.kv_bytes(options.max_len, options.block_size);
  fit.sequences = static_cast<std::int64_t>(fit.kv_cache / fit.kv_sequence);
  return fit;
}

std::optional<OperatingPoint> operating_point(const PipelineCost& cost, const LoadTarget& target,
                                              double qps, double most) {
  const StepTime prompt = cost.prefill(static_cast<double>(target.input_len));
  OperatingPoint point;
  point.qps = qps;
  point.prefill_share = qps * prompt.stage_s;
  if (point.prefill_share > kMostPrefillShare) return std::nullopt;
  const auto outputs = static_cast<double>(target.output_len);
  const double context = mean_context(target);
  // From below to the point where as many sequences decode as arrive in the time that they take.
  point.batch = 1;
  StepTime step;
  bool settled = false;
  for (int i = 0; i < 1000 && !settled; ++i) {
    step = cost.decode(point.batch, context);
    point.tpot_s = step.expected_s / (1 - point.prefill_share);
    const double next = std::max(1.0, qps * outputs * point.tpot_s);
    if (next > most) return std::nullopt;
    settled = std::abs(next - point.batch) < 1e-9 * next;
    point.batch = next;
  }
  if (!settled) return std::nullopt;  // so near to what it carries that the queue has no end
  const double wait_s = prompt.stage_s * point.prefill_share / (2 * (1 - point.prefill_share));
  point.ttft_s = prompt.expected_s + wait_s + step.stage_s;
  return point;
}

Result<LoadPlan> plan_load(const PipelineCost& cost, const LoadTarget& target, double most) {
  const auto alone = operating_point(cost, target, 0, most);
  if (!alone || !meets(*alone, target)) {
    const OperatingPoint point = alone.value_or(OperatingPoint());
    const bool first = point.ttft_s > target.ttft_s.value_or(HUGE_VAL);
    return Status::resource_exhausted(
        !alone  ? std::string("not one sequence fits")
        : first ? fmt::format("one prompt alone has its first token after {:.0f} ms",
                              point.ttft_s * 1e3)
                : fmt::format("one sequence alone takes {:.1f} ms a token", point.tpot_s * 1e3));
  }
  const auto carries = [&](double qps) {
    const auto point = operating_point(cost, target, qps, most);
    return point && meets(*point, target);
  };
  double low = 0;
  double high = 1e-3;
  while (carries(high) && high < 1e9) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (carries(middle) ? low : high) = middle;
  }
  LoadPlan plan;
  plan.max_qps = low;
  if (low <= 0 || target.qps / low > 1e6) {
    return Status::resource_exhausted("more than a million copies would be needed");
  }
  plan.replicas = std::max(1, static_cast<int>(std::ceil(target.qps / low * (1 - 1e-12))));
  plan.point = operating_point(cost, target, target.qps / plan.replicas, most).value_or(*alone);
  return plan;
}

double output_rate(const PipelineCost& cost, double batch, double input_len, double output_len) {
  const double context = input_len + output_len / 2;
  const double request_s =
      cost.prefill(input_len).stage_s + output_len * cost.decode(batch, context).expected_s / batch;
  return output_len / request_s;
}

}  // namespace quire
