#include "apps/plan/load_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/plan/plan_values.h"

namespace quire {
namespace {

LoadOption load_option(const PlannedModel& model, DevicePlan plan, const LoadTarget& target,
                       const PlanSettings& settings) {
  LoadOption option{.plan = std::move(plan)};
  if (const Status fit = check_fit(model, option.plan, settings); !fit.ok()) {
    option.obstacle = "does not fit";
    return option;
  }
  auto load = plan_load(option.plan.cost, target, static_cast<double>(option.plan.most));
  if (!load.ok()) {
    option.obstacle = load.status().message();
    return option;
  }
  option.load = *load;
  if (option.plan.usd_per_hour) {
    option.usd_per_hour = *option.plan.usd_per_hour * option.load.replicas;
  }
  return option;
}

// Whether `option` carries the load with fewer devices than `best`, another number of stages; where
// none does, the last says what hinders.
bool takes_fewer(const LoadOption& option, const LoadOption& best) {
  if (!best.obstacle.empty()) return true;
  return option.obstacle.empty() && option.load.replicas * option.plan.layout.devices() <
                                        best.load.replicas * best.plan.layout.devices();
}

// What it is sorted by: what can and costs least first.
double rank_of(const LoadOption& option) {
  if (!option.obstacle.empty()) return HUGE_VAL;
  return option.usd_per_hour.value_or(1e12);
}

std::optional<double> usd_per_million_outputs(const LoadOption& option, const LoadTarget& target) {
  if (!option.usd_per_hour) return std::nullopt;
  return *option.usd_per_hour / 3600 / (target.qps * static_cast<double>(target.output_len)) * 1e6;
}

}  // namespace

Result<std::vector<LoadOption>> load_options(const PlannedModel& model,
                                             const std::vector<PlanDevice>& devices,
                                             DeviceLayout wanted, const LoadTarget& target,
                                             const PlanSettings& settings) {
  std::vector<LoadOption> options;
  for (const PlanDevice& device : devices) {
    if (wanted.tp > device.max_tp && devices.size() > 1) continue;
    std::vector<DeviceLayout> layouts = fitting_layouts(model, device, wanted);
    // The targets cannot be met; the plan says so.
    if (layouts.empty()) layouts = {{std::max(wanted.tp, 1), std::max(wanted.pp, 1)}};
    const int first_of_device = static_cast<int>(options.size());
    for (const DeviceLayout layout : layouts) {
      QUIRE_ASSIGN_OR_RETURN(DevicePlan plan, make_device_plan(model, device, layout, settings));
      LoadOption option = load_option(model, std::move(plan), target, settings);
      const bool same_tp =
          std::ssize(options) > first_of_device && options.back().plan.layout.tp == layout.tp;
      if (!same_tp) {
        options.push_back(std::move(option));
      } else if (takes_fewer(option, options.back())) {
        options.back() = std::move(option);
      }
    }
  }
  std::ranges::stable_sort(options, {}, rank_of);
  return options;
}

std::string load_text(const std::vector<LoadOption>& options, const LoadTarget& target) {
  std::string text = fmt::format(
      "{:g} requests a second of {} tokens in and {} out{}{}\n\n", target.qps, target.input_len,
      target.output_len,
      target.ttft_s ? fmt::format(", first token within {}", time_text(*target.ttft_s)) : "",
      target.tpot_s ? fmt::format(", {} a token", time_text(*target.tpot_s)) : "");
  text += fmt::format("{:<12}{:>4}{:>8}{:>10}{:>10}{:>9}{:>12}{:>12}{:>11}{:>13}\n", "device", "tp",
                      "copies", "devices", "QPS each", "batch", "TTFT", "TPOT", "USD/hour",
                      "USD/million");
  std::string failed;
  for (const LoadOption& option : options) {
    const std::string name = fmt::format("{:<12}{:>4}{:>4}", option.plan.device.name,
                                         option.plan.layout.tp, option.plan.layout.pp);
    if (!option.obstacle.empty()) {
      failed += fmt::format("{}  {}\n", name, option.obstacle);
      continue;
    }
    const LoadPlan& load = option.load;
    const auto million = usd_per_million_outputs(option, target);
    text +=
        fmt::format("{}{:>8}{:>10}{:>10.2f}{:>9.1f}{:>12}{:>12}{:>11}{:>13}\n", name, load.replicas,
                    load.replicas * option.plan.layout.devices(), load.point.qps, load.point.batch,
                    time_text(load.point.ttft_s), time_text(load.point.tpot_s),
                    option.usd_per_hour ? fmt::format("{:.2f}", *option.usd_per_hour) : "-",
                    million ? fmt::format("{:.3f}", *million) : "-");
  }
  if (!failed.empty()) text += "\nthese do not carry it:\n" + failed;
  return text +
         "\nmeans, by expected times; USD of a million output tokens, prompts paid for "
         "too. The first line is the cheapest.\n";
}

json::array load_json(const std::vector<LoadOption>& options, const LoadTarget& target) {
  json::array list;
  for (const LoadOption& option : options) {
    json::object each = {{"device", option.plan.device.name},
                         {"tp", option.plan.layout.tp},
                         {"pp", option.plan.layout.pp}};
    if (!option.obstacle.empty()) {
      each["obstacle"] = option.obstacle;
      list.push_back(std::move(each));
      continue;
    }
    const LoadPlan& load = option.load;
    const auto million = usd_per_million_outputs(option, target);
    each["replicas"] = load.replicas;
    each["devices"] = load.replicas * option.plan.layout.devices();
    each["max_qps_per_replica"] = load.max_qps;
    each["qps_per_replica"] = load.point.qps;
    each["batch"] = load.point.batch;
    each["prefill_share"] = load.point.prefill_share;
    each["ttft_ms"] = load.point.ttft_s * 1e3;
    each["tpot_ms"] = load.point.tpot_s * 1e3;
    each["usd_per_hour"] =
        option.usd_per_hour ? json::value(*option.usd_per_hour) : json::value(nullptr);
    each["usd_per_million_output_tokens"] = million ? json::value(*million) : json::value(nullptr);
    list.push_back(std::move(each));
  }
  return list;
}

}  // namespace quire
