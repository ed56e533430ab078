#include "apps/plan/device_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/plan/plan_values.h"

namespace quire {
namespace {

constexpr int kMostPlannedStages = 8;  // of layouts that nobody asked for

}  // namespace

Result<double> kv_number_bytes(const std::string& kv_dtype, const PlannedModel& model) {
  if (kv_dtype == "auto") return model.format.arithmetic == Arithmetic::kF32 ? 4.0 : 2.0;
  if (kv_dtype == "fp32" || kv_dtype == "float32") return 4.0;
  if (kv_dtype == "bf16" || kv_dtype == "bfloat16") return 2.0;
  return 1.0;
}

Result<DevicePlan> make_device_plan(const PlannedModel& model, const PlanDevice& device,
                                    DeviceLayout layout, const PlanSettings& settings) {
  if (layout.tp > device.max_tp) {
    return Status::invalid_argument(fmt::format("--tp {}: a model is split over at most {} of {}",
                                                layout.tp, device.max_tp, device.name),
                                    "use --pp or run several copies, or name a device with links");
  }
  QUIRE_ASSIGN_OR_RETURN(const double kv_bytes, kv_number_bytes(settings.kv_dtype, model));
  const FootprintOptions of_device = {
      .format = model.format, .kv_bytes = kv_bytes, .tp = layout.tp, .max_len = model.max_len};
  QUIRE_ASSIGN_OR_RETURN(std::vector<ModelFootprint> stages,
                         stage_footprints(model.spec, of_device, layout.pp));
  CapacityOptions options = settings.capacity;
  options.max_len = model.max_len;
  options.max_num_seqs = std::max<std::int64_t>(options.max_num_seqs, 1);
  const std::int64_t length = std::min(model.max_len, settings.input_len + settings.output_len);
  std::vector<DeviceFit> fits;
  std::int64_t most = options.max_num_seqs;
  double kv_tokens = HUGE_VAL;
  for (const ModelFootprint& stage : stages) {
    const DeviceFit& fit = fits.emplace_back(fit_device(stage, device, options));
    const double of_one = stage.kv_bytes(length, options.block_size);
    most = std::min(most, static_cast<std::int64_t>(fit.kv_cache / of_one));
    kv_tokens = std::min(kv_tokens, fit.kv_cache / stage.kv_bytes_per_token());
  }
  // Of those with equally few sequences, none most of all, the one with the most weights.
  const auto fullest = std::ranges::min_element(
      fits, {}, [](const DeviceFit& fit) { return std::pair(fit.sequences, -fit.weights); });
  std::optional<double> usd = settings.usd_per_hour ? settings.usd_per_hour : device.usd_per_hour;
  if (usd) usd = *usd * layout.devices();
  PipelineCost cost(stages, device, model.format.arithmetic, layout.tp, settings.network);
  return DevicePlan{.device = device,
                    .layout = layout,
                    .stages = std::move(stages),
                    .fullest = static_cast<std::size_t>(fullest - fits.begin()),
                    .fit = *fullest,
                    .kv_tokens = kv_tokens,
                    .cost = std::move(cost),
                    .usd_per_hour = usd,
                    .most = most};
}

std::vector<DeviceLayout> fitting_layouts(const PlannedModel& model, const PlanDevice& device,
                                          DeviceLayout wanted) {
  std::vector<DeviceLayout> layouts;
  const int least_tp = wanted.tp > 0 ? wanted.tp : 1;
  const int most_tp = wanted.tp > 0 ? wanted.tp : device.max_tp;
  const int least_pp = wanted.pp > 0 ? wanted.pp : 1;
  const int most_pp = wanted.pp > 0 ? wanted.pp : kMostPlannedStages;
  for (int tp = least_tp; tp <= most_tp; tp *= 2) {
    for (int pp = least_pp; pp <= most_pp; pp *= 2) {
      const FootprintOptions options = {.format = model.format, .tp = tp, .max_len = model.max_len};
      if (stage_footprints(model.spec, options, pp).ok()) layouts.push_back({.tp = tp, .pp = pp});
    }
  }
  return layouts;
}

Result<DevicePlan> smallest_device_plan(const PlannedModel& model, const PlanDevice& device,
                                        DeviceLayout wanted, const PlanSettings& settings) {
  std::vector<DeviceLayout> layouts = fitting_layouts(model, device, wanted);
  if (layouts.empty()) {  // what is wanted cannot be, which this says
    return make_device_plan(model, device, {std::max(wanted.tp, 1), std::max(wanted.pp, 1)},
                            settings);
  }
  // Stages come last: links between devices of a layer are faster for one request.
  std::ranges::stable_sort(layouts, {}, &DeviceLayout::pp);
  const int most_tp = std::ranges::max(layouts, {}, &DeviceLayout::tp).tp;
  std::optional<DevicePlan> plan;
  for (const DeviceLayout layout : layouts) {
    if (wanted.pp == 0 && layout.pp > 1 && layout.tp < most_tp) continue;
    QUIRE_ASSIGN_OR_RETURN(plan, make_device_plan(model, device, layout, settings));
    if (plan->fit.fits()) break;
  }
  return *std::move(plan);
}

Status check_fit(const PlannedModel& model, const DevicePlan& plan, const PlanSettings& settings) {
  if (plan.fit.fits()) return {};
  const int devices = plan.layout.devices();
  const std::string who = devices == 1 ? plan.device.name
                          : plan.layout.pp == 1
                              ? fmt::format("each of {} {}", devices, plan.device.name)
                              : fmt::format("each {} of stage {} of {}", plan.device.name,
                                            plan.fullest + 1, plan.layout.pp);
  const std::string has =
      fmt::format("{} has {} ({:.0f}% of {})", who, binary_bytes(plan.fit.budget),
                  settings.capacity.utilization * 100, binary_bytes(plan.device.memory_bytes));
  if (plan.fit.weights + plan.fit.activations >= plan.fit.budget) {
    return Status::resource_exhausted(
        fmt::format("{} takes {} of weights and {} of activations; {}", model.name,
                    binary_bytes(plan.fit.weights), binary_bytes(plan.fit.activations), has),
        "raise --tp or --pp, or use a smaller --dtype");
  }
  return Status::resource_exhausted(
      fmt::format("{} leaves {} for the KV cache; a sequence of {} tokens takes {}; {}", model.name,
                  binary_bytes(plan.fit.kv_cache), model.max_len,
                  binary_bytes(plan.fit.kv_sequence), has),
      "lower --max-model-len, raise --tp or --pp, or use a smaller --kv-cache-dtype");
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
