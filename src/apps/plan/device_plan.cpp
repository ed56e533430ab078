#include "apps/plan/device_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/plan/plan_values.h"

namespace quire {

Result<double> kv_number_bytes(const std::string& kv_dtype, const PlannedModel& model) {
  if (kv_dtype == "auto") return model.format.arithmetic == Arithmetic::kF32 ? 4.0 : 2.0;
  if (kv_dtype == "fp32" || kv_dtype == "float32") return 4.0;
  if (kv_dtype == "bf16" || kv_dtype == "bfloat16") return 2.0;
  return 1.0;
}

Result<DevicePlan> make_device_plan(const PlannedModel& model, const PlanDevice& device, int tp,
                                    const PlanSettings& settings) {
  if (tp > device.max_tp) {
    return Status::invalid_argument(fmt::format("--tp {}: a model is split over at most {} of {}",
                                                tp, device.max_tp, device.name),
                                    "run several copies instead, or name a device with links");
  }
  QUIRE_ASSIGN_OR_RETURN(const double kv_bytes, kv_number_bytes(settings.kv_dtype, model));
  QUIRE_ASSIGN_OR_RETURN(
      ModelFootprint footprint,
      model_footprint(
          model.spec,
          {.format = model.format, .kv_bytes = kv_bytes, .tp = tp, .max_len = model.max_len}));
  CapacityOptions options = settings.capacity;
  options.max_len = model.max_len;
  options.max_num_seqs = std::max<std::int64_t>(options.max_num_seqs, 1);
  const DeviceFit fit = fit_device(footprint, device, options);
  const CostModel cost(footprint, device, model.format.arithmetic, tp);
  DevicePlan plan{
      .device = device,
      .tp = tp,
      .footprint = footprint,
      .fit = fit,
      .cost = cost,
      .usd_per_hour = settings.usd_per_hour ? settings.usd_per_hour : device.usd_per_hour};
  if (plan.usd_per_hour) plan.usd_per_hour = *plan.usd_per_hour * tp;
  const std::int64_t length = std::min(model.max_len, settings.input_len + settings.output_len);
  const double of_one = footprint.kv_bytes(length, options.block_size);
  plan.most = std::min(options.max_num_seqs, static_cast<std::int64_t>(fit.kv_cache / of_one));
  return plan;
}

std::vector<int> fitting_tp(const PlannedModel& model, const PlanDevice& device) {
  std::vector<int> list;
  for (int tp = 1; tp <= device.max_tp; tp *= 2) {
    const FootprintOptions options = {.format = model.format, .tp = tp, .max_len = model.max_len};
    if (model_footprint(model.spec, options).ok()) list.push_back(tp);
  }
  return list;
}

Result<DevicePlan> smallest_device_plan(const PlannedModel& model, const PlanDevice& device,
                                        const PlanSettings& settings) {
  const std::vector<int> sizes = fitting_tp(model, device);  // 1 is always among them
  for (const int tp : sizes) {
    QUIRE_ASSIGN_OR_RETURN(DevicePlan plan, make_device_plan(model, device, tp, settings));
    if (plan.fit.fits() || tp == sizes.back()) return plan;
  }
  return Status::internal("no number of devices divides the model");
}

Status check_fit(const PlannedModel& model, const DevicePlan& plan, const PlanSettings& settings) {
  if (plan.fit.fits()) return {};
  const std::string who =
      plan.tp == 1 ? plan.device.name : fmt::format("each of {} {}", plan.tp, plan.device.name);
  const std::string has =
      fmt::format("{} has {} ({:.0f}% of {})", who, binary_bytes(plan.fit.budget),
                  settings.capacity.utilization * 100, binary_bytes(plan.device.memory_bytes));
  if (plan.fit.weights + plan.fit.activations >= plan.fit.budget) {
    return Status::resource_exhausted(
        fmt::format("{} takes {} of weights and {} of activations; {}", model.name,
                    binary_bytes(plan.fit.weights), binary_bytes(plan.fit.activations), has),
        "raise --tp, or use a smaller --dtype");
  }
  return Status::resource_exhausted(
      fmt::format("{} leaves {} for the KV cache; a sequence of {} tokens takes {}; {}", model.name,
                  binary_bytes(plan.fit.kv_cache), model.max_len,
                  binary_bytes(plan.fit.kv_sequence), has),
      "lower --max-model-len, raise --tp, or use a smaller --kv-cache-dtype");
}

std::vector<std::int64_t> plan_batches(std::int64_t most) {
  std::vector<std::int64_t> batches;
  for (std::int64_t batch = 1; batch < most; batch *= 2) batches.push_back(batch);
  if (most > 0) batches.push_back(most);
  return batches;
}

std::optional<double> usd_per_million(const DevicePlan& plan, const PlanSettings& settings,
                                      double batch) {
  if (!plan.usd_per_hour) return std::nullopt;
  const double rate = output_rate(plan.cost, batch, static_cast<double>(settings.input_len),
                                  static_cast<double>(settings.output_len));
  return *plan.usd_per_hour / 3600 / rate * 1e6;
}

}  // namespace quire
