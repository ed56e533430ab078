#include "apps/simulate/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/count_option.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr std::size_t kMaxSweep = 1000;  // runs
constexpr double kMostStepMs = 1e6;

struct NamedChoice {
  std::string_view setting;
  std::array<std::string_view, 6> values;  // those that are not empty
};

constexpr std::array<NamedChoice, 6> kNamedChoices = {{
    {"scheduling-policy", {"fcfs", "priority", "shortest", "deadline", "fair", "longest-prefix"}},
    {"batching", {"continuous", "static", "dynamic"}},
    {"kv", {"paged", "reserved"}},
    {"router", {"round-robin", "least-loaded", "prefix"}},
    {"enable-prefix-caching", {"on", "off"}},
    {"enable-chunked-prefill", {"on", "off"}},
}};

}  // namespace

std::vector<std::string> setting_choices(std::string_view name) {
  const auto choice = std::ranges::find(kNamedChoices, name, &NamedChoice::setting);
  std::vector<std::string> values;
  for (const std::string_view value : choice->values) {
    if (!value.empty()) values.emplace_back(value);
  }
  return values;
}

namespace {

Status set_named(SimulationSettings& settings, const NamedChoice& choice,
                 const std::string& value) {
  if (value.empty() || std::ranges::find(choice.values, value) == choice.values.end()) {
    return Status::invalid_argument(
        fmt::format("{}: expected one of {}, found \"{}\"", choice.setting,
                    fmt::join(setting_choices(choice.setting), ", "), printable(value)));
  }
  if (choice.setting == "scheduling-policy") settings.policy = value;
  if (choice.setting == "batching") settings.batching = value;
  if (choice.setting == "kv") settings.kv = value;
  if (choice.setting == "router") settings.router = value;
  if (choice.setting == "enable-prefix-caching") settings.prefix_caching = value == "on";
  if (choice.setting == "enable-chunked-prefill") settings.chunked_prefill = value == "on";
  return {};
}

struct CountSetting {
  std::string_view name;
  std::int64_t least = 1;
};

constexpr std::array<CountSetting, 10> kCountSettings = {{{"max-num-seqs"},
                                                          {"max-waiting-tokens"},
                                                          {"max-num-batched-tokens"},
                                                          {"block-size"},
                                                          {"replicas"},
                                                          {"prefill-replicas", 0},
                                                          {"tp"},
                                                          {"pp"},
                                                          {"kv-tokens"},
                                                          {"num-speculative-tokens", 0}}};

void set_counted(SimulationSettings& settings, std::string_view name, std::int64_t value) {
  if (name == "max-num-seqs") settings.max_num_seqs = value;
  if (name == "max-waiting-tokens") settings.max_waiting_tokens = value;
  if (name == "max-num-batched-tokens") settings.max_num_batched_tokens = value;
  if (name == "block-size") settings.block_size = value;
  if (name == "replicas") settings.replicas = static_cast<int>(value);
  if (name == "prefill-replicas") settings.prefill_replicas = static_cast<int>(value);
  if (name == "tp") settings.tp = static_cast<int>(value);
  if (name == "pp") settings.pp = static_cast<int>(value);
  if (name == "num-speculative-tokens") settings.num_speculative_tokens = value;
  if (name == "kv-tokens") settings.kv_tokens = value;
}

struct NumberSetting {
  std::string_view name;
  double SimulationSettings::*member;
  double least;
  double most = 1e6;
};

constexpr std::array<NumberSetting, 3> kNumberSettings = {
    {{"kv-offloading-size", &SimulationSettings::kv_offloading_size, 0},
     {"kv-offload-gbs", &SimulationSettings::kv_offload_gbs, 1e-3},
     {"waiting-served-ratio", &SimulationSettings::waiting_served_ratio, 0,
      kMaxWaitingServedRatio}}};

Status set_number(SimulationSettings& settings, const NumberSetting& setting,
                  const std::string& value) {
  double number = 0;
  if (!CLI::detail::lexical_cast(value, number) ||
      !(number >= setting.least && number <= setting.most)) {
    return Status::invalid_argument(fmt::format("{}: expected {:g} to {:g}, found \"{}\"",
                                                setting.name, setting.least, setting.most,
                                                printable(value)));
  }
  settings.*setting.member = number;
  return {};
}

Status set_max_step(SimulationSettings& settings, const std::string& value) {
  double most_ms = 0;
  if (value != "auto" &&
      (!CLI::detail::lexical_cast(value, most_ms) || !(most_ms >= 0 && most_ms <= kMostStepMs))) {
    return Status::invalid_argument(
        fmt::format("max-step-ms: expected milliseconds, 0 (no limit) or auto, found \"{}\"",
                    printable(value)));
  }
  settings.max_step_ms = value == "auto" ? std::nullopt : std::optional(most_ms);
  settings.pace = {};
  return {};
}

struct SweptSetting {
  std::string name;
  std::vector<std::string> values;
};

Result<std::vector<SweptSetting>> parse_sweeps(const std::vector<std::string>& texts) {
  std::vector<SweptSetting> sweeps;
  std::size_t runs = 1;
  for (const std::string& text : texts) {
    SweptSetting sweep;
    const std::size_t equals = std::min(text.find('='), text.size());
    sweep.name = text.substr(0, equals);
    std::string rest = text.substr(std::min(equals + 1, text.size()));
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      sweep.values.push_back(rest.substr(0, comma));
      rest.erase(0, comma + 1);
      SimulationSettings unused;
      QUIRE_RETURN_IF_ERROR(set_setting(unused, sweep.name, sweep.values.back()));
    }
    if (sweep.values.empty()) {
      return Status::invalid_argument(
          fmt::format("--sweep {}: expected NAME=VALUE,VALUE", text),
          fmt::format("names are {}", fmt::join(setting_names(), ", ")));
    }
    runs *= sweep.values.size();
    if (runs > kMaxSweep) {
      return Status::invalid_argument(fmt::format("--sweep: more than {} runs", kMaxSweep));
    }
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

}  // namespace

Status set_setting(SimulationSettings& settings, const std::string& name,
                   const std::string& value) {
  if (name == kMaxStepSetting) return set_max_step(settings, value);
  for (const NamedChoice& choice : kNamedChoices) {
    if (choice.setting == name) return set_named(settings, choice, value);
  }
  for (const NumberSetting& number : kNumberSettings) {
    if (number.name == name) return set_number(settings, number, value);
  }
  const auto setting = std::ranges::find(kCountSettings, name, &CountSetting::name);
  if (setting == kCountSettings.end()) {
    return Status::invalid_argument(fmt::format("\"{}\" is no setting of a sweep", printable(name)),
                                    fmt::format("use one of {}", fmt::join(setting_names(), ", ")));
  }
  const auto count = parse_count(value);
  if (!count.ok() || *count < setting->least || *count > (1LL << 30)) {
    return Status::invalid_argument(fmt::format("{}: expected a count of {} to {}, found {}", name,
                                                setting->least, 1LL << 30, printable(value)));
  }
  set_counted(settings, name, *count);
  return {};
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const CountSetting& setting : kCountSettings) names.emplace_back(setting.name);
  for (const NamedChoice& choice : kNamedChoices) names.emplace_back(choice.setting);
  for (const NumberSetting& number : kNumberSettings) names.emplace_back(number.name);
  names.emplace_back(kMaxStepSetting);
  return names;
}

AdmissionPace admission_of(const SimulationSettings& settings) {
  return {.waiting_served_ratio = settings.waiting_served_ratio,
          .max_waiting_tokens = static_cast<std::int32_t>(settings.max_waiting_tokens)};
}

Result<std::vector<SweptSettings>> sweep_settings(const std::vector<std::string>& sweeps,
                                                  const SimulationSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SweptSetting> swept, parse_sweeps(sweeps));
  std::vector<SweptSettings> all = {{.labels = {}, .settings = settings}};
  for (const SweptSetting& sweep : swept) {
    const auto before = std::exchange(all, {});
    for (const SweptSettings& one : before) {
      for (const std::string& value : sweep.values) {
        SweptSettings next = one;
        next.labels.push_back(sweep.name + "=" + value);
        QUIRE_RETURN_IF_ERROR(set_setting(next.settings, sweep.name, value));
        all.push_back(std::move(next));
      }
    }
  }
  return all;
}

}  // namespace quire
