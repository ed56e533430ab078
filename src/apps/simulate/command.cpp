// `quire simulate`: a model, devices and traffic in virtual time, under the real scheduler.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/help.h"
#include "apps/simulate/run_list.h"
#include "apps/simulate/simulate_flags.h"
#include "apps/simulate/simulation.h"
#include "apps/simulate/what_if.h"
#include "apps/step_times_file.h"
#include "base/file.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxTraceBytes = 4ULL << 30;

Result<Traffic> traffic_of(const SimulateFlags& flags, std::int64_t max_len) {
  if (!flags.event_log.empty()) {
    QUIRE_ASSIGN_OR_RETURN(RecordedRun run, read_recorded_run(flags.event_log));
    return std::move(run.traffic);
  }
  if (!flags.trace.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(flags.trace, kMaxTraceBytes));
    return parse_trace(text, flags.trace);
  }
  TrafficConfig config = flags.traffic;
  config.max_len = max_len;
  config.input_len = flags.plan.input_len;
  config.output_len = flags.plan.output_len;
  config.spread = flags.spread == "fixed"       ? LengthSpread::kFixed
                  : flags.spread == "geometric" ? LengthSpread::kGeometric
                                                : LengthSpread::kUniform;
  const std::int64_t longest = config.input_len + (config.num_prefixes > 0 ? config.prefix_len : 0);
  if (longest + config.output_len > max_len) {
    return Status::invalid_argument(
        fmt::format("prompts of {} tokens and outputs of {} are more than a sequence of {} tokens",
                    longest, config.output_len, max_len),
        "raise --max-model-len, or lower --input-len or --output-len");
  }
  return make_traffic(config);
}

// The most good requests a dollar, or a second where there is no price.
double worth_of(const SimulatedRun& run) {
  const SimulationSummary& summary = run.summary;
  const double good = summary.good_share * static_cast<double>(summary.num_requests);
  return summary.usd && *summary.usd > 0 ? good / *summary.usd : summary.goodput;
}

const SimulatedRun& best_of(const std::vector<SimulatedRun>& runs) {
  return *std::ranges::max_element(runs, {}, worth_of);
}

std::string best_text(const std::vector<SimulatedRun>& runs) {
  const SimulatedRun& best = best_of(runs);
  return fmt::format("best: {}, with the most requests that keep the limits {} ({:.2f})",
                     fmt::join(best.labels, " "), best.summary.usd ? "for a dollar" : "a second",
                     worth_of(best));
}

void print_sweep(const std::vector<SimulatedRun>& runs) {
  fmt::print("{}", run_table_head());
  for (const SimulatedRun& run : runs) {
    fmt::print("{}", run_table_row(fmt::format("{}", fmt::join(run.labels, " ")), run.summary));
  }
  fmt::print("\n{}\n", best_text(runs));
}

json::array to_json(const std::vector<SimulatedRun>& runs) {
  json::array list;
  for (const SimulatedRun& run : runs) list.push_back(to_json(run));
  return list;
}

void print_runs(const SimulateFlags& flags, const std::string& what, json::object report,
                const std::vector<SimulatedRun>& runs) {
  if (flags.json) {
    report["runs"] = to_json(runs);
    if (runs.size() > 1) {
      const SimulatedRun& best = best_of(runs);
      report["best"] = json::array(best.labels.begin(), best.labels.end());
    }
    fmt::print("{}\n", json::serialize(report));
    return;
  }
  fmt::print("{}\n\n", what);
  if (runs.size() == 1) {
    fmt::print("{}", summary_text(runs.front().summary));
  } else {
    print_sweep(runs);
  }
}

Result<SimulationSettings> settings_of(const SimulateFlags& flags) {
  SimulationSettings settings = flags.settings;
  if (!flags.step_cost.empty()) {
    QUIRE_ASSIGN_OR_RETURN(settings.step_times, read_step_times(flags.step_cost));
  }
  return settings;
}

Status run_simulate(const SimulateFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(DeviceCatalog catalog, DeviceCatalog::builtin());
  if (!flags.device_file.empty()) QUIRE_RETURN_IF_ERROR(catalog.add_file(flags.device_file));
  QUIRE_RETURN_IF_ERROR(check_dtype(flags.model.dtype));
  QUIRE_ASSIGN_OR_RETURN(const PlanDevice device, catalog.find(flags.device));
  QUIRE_ASSIGN_OR_RETURN(const SimulationSettings settings, settings_of(flags));
  QUIRE_ASSIGN_OR_RETURN(const auto all, sweep_settings(flags.sweeps, settings));
  QUIRE_ASSIGN_OR_RETURN(
      const PlannedModel model,
      open_planned_model(flags.model.model, flags.model.dtype, flags.model.max_model_len));
  QUIRE_ASSIGN_OR_RETURN(const Traffic traffic, traffic_of(flags, model.max_len));
  const std::string what = fmt::format("{} on {}, {} requests ({})", model.name, device.title,
                                       traffic.arrivals.size(), traffic.source);
  RunList list(what, traffic.arrivals.size());
  QUIRE_RETURN_IF_ERROR(list.open_page(flags.html));
  for (const SweptSettings& swept : all) {
    const RunList::Simulate run = [&](const auto& progress) {
      return simulate(model, device, flags.plan, swept.settings, traffic, progress);
    };
    QUIRE_RETURN_IF_ERROR(list.add(swept.labels, run));
  }
  QUIRE_RETURN_IF_ERROR(list.close_page(list.runs().size() > 1 ? best_text(list.runs()) : ""));
  print_runs(flags, what,
             {{"model", model.name}, {"device", device.name}, {"traffic", traffic.source}},
             list.runs());
  return {};
}

// With what the command line changes, and every value of its sweeps.
Result<std::vector<SweptSettings>> changed_settings(const SimulateFlags& flags,
                                                    SimulationSettings settings) {
  for (const std::string& change : flags.changes) {
    const std::size_t equals = change.find('=');
    QUIRE_RETURN_IF_ERROR(
        set_setting(settings, change.substr(0, equals), change.substr(equals + 1)));
  }
  QUIRE_ASSIGN_OR_RETURN(auto all, sweep_settings(flags.sweeps, settings));
  for (SweptSettings& each : all) {
    each.labels.insert(each.labels.begin(), flags.changes.begin(), flags.changes.end());
  }
  if (flags.changes.empty() && flags.sweeps.empty()) all.clear();
  return all;
}

std::string kinds_text(const std::vector<StepKind>& kinds) {
  std::vector<std::string> texts;
  for (const StepKind& kind : kinds) texts.push_back(tokens_text(kind));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void print_what_if(const std::string& what, bool measured, const RecordedStepTimes& recorded,
                   const RecordedRun& run, const std::vector<SimulatedRun>& runs) {
  fmt::print("{}\n", what);
  fmt::print(
      "steps of {} tokens cost what the log's {} did, others {}\n", kinds_text(recorded.kinds),
      run.steps.size(),
      measured ? "what --step-cost says, in proportion to these" : "what lies between these");
  fmt::print("one by one the log's are off by {:.1f}% on average\n", recorded.mean_error * 100);
  for (const std::string& note : run.notes) fmt::print("note: {}\n", note);
  fmt::print("\n{}", run_table_head());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SimulationSummary& summary = runs[i].summary;
    fmt::print("{}", run_table_row(fmt::format("{}", fmt::join(runs[i].labels, " ")), summary));
    if (i == 0) continue;
    fmt::print("{}", run_table_change(i == 1 ? "  against the recorded run"
                                             : "  against the same settings simulated",
                                      runs[i == 1 ? 0 : 1].summary, summary));
    fmt::print("  {:.0f}% of its time in steps as the log has them\n",
               summary.recorded_step_share.value_or(0) * 100);
  }
}

void print_what_if_json(const SimulateFlags& flags, const RecordedStepTimes& recorded,
                        const RecordedRun& run, const std::vector<SimulatedRun>& runs) {
  json::object costs = step_times_json(recorded.times);
  costs["mean_error"] = recorded.mean_error;
  json::object kinds;
  for (const StepKind& kind : recorded.kinds) kinds[tokens_text(kind)] = kind.num_steps;
  costs["steps_of_the_log"] = std::move(kinds);
  json::object report = {
      {"event_log", flags.event_log},
      {"traffic", run.traffic.source},
      {"step_cost", std::move(costs)},
      {"notes", json::array(run.notes.begin(), run.notes.end())},
      {"recorded", to_json(runs[0].summary)},
      {"simulated", to_json(runs[1].summary)},
      {"runs", to_json(std::vector<SimulatedRun>(runs.begin() + 2, runs.end()))}};
  fmt::print("{}\n", json::serialize(report));
}

Status run_what_if(const SimulateFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const SimulationSettings given, settings_of(flags));
  QUIRE_ASSIGN_OR_RETURN(const RecordedRun recorded, read_recorded_run(flags.event_log));
  QUIRE_ASSIGN_OR_RETURN(const RecordedStepTimes steps,
                         recorded_step_times(recorded, given.step_times));
  SimulationSettings same = recorded_settings(recorded, given);
  same.step_times = steps.times;
  QUIRE_ASSIGN_OR_RETURN(const auto all, changed_settings(flags, same));
  const std::size_t num_requests = recorded.traffic.arrivals.size();
  const std::string what =
      fmt::format("{} requests of {}", num_requests, printable(flags.event_log));
  const auto usd = flags.plan.usd_per_hour;
  RunList list(what, num_requests);
  QUIRE_RETURN_IF_ERROR(list.open_page(flags.html));
  const RunList::Simulate as_recorded = [&](const auto&) -> Result<SimulationOutcome> {
    return recorded_outcome(recorded, same, usd);
  };
  QUIRE_RETURN_IF_ERROR(list.add({"recorded"}, as_recorded));
  const auto simulate = [&](const std::vector<std::string>& labels,
                            const SimulationSettings& settings) {
    const RunList::Simulate run = [&](const auto& progress) {
      return simulate_recorded(recorded, settings, steps.kinds, usd, progress);
    };
    return list.add(labels, run);
  };
  QUIRE_RETURN_IF_ERROR(simulate({"same settings, simulated"}, same));
  for (const SweptSettings& each : all) {
    QUIRE_RETURN_IF_ERROR(simulate(each.labels, each.settings));
  }
  QUIRE_RETURN_IF_ERROR(list.close_page("The first of them is what was recorded."));
  if (flags.json) {
    print_what_if_json(flags, steps, recorded, list.runs());
  } else {
    print_what_if(what, given.step_times.has_value(), steps, recorded, list.runs());
  }
  return {};
}

}  // namespace

Command add_simulate(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  set_help(app, {{{"quire simulate config.json --device h100 --qps 8 --ttft 1s --tpot 50ms",
                   "what users would see with a model on other devices"},
                  {"quire simulate --event-log run --max-num-seqs 16",
                   "what a server would have done with another setting"}}});
  add_simulate_flags(app, *flags);
  return [flags, &app]() -> Status {
    const bool what_if = !flags->event_log.empty() && flags->model.model.empty();
    if (!what_if) return run_simulate(*flags);
    QUIRE_RETURN_IF_ERROR(check_flags_of_what_if(app));
    flags->changes = named_settings(app);
    return run_what_if(*flags);
  };
}

}  // namespace quire
