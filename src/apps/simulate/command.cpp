// `quire simulate`: a model, devices and traffic in virtual time, under the real scheduler.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/event_log_files.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/output_file.h"
#include "apps/plan/plan_flags.h"
#include "apps/plan/plan_values.h"
#include "apps/progress.h"
#include "apps/simulate/report_html.h"
#include "apps/simulate/simulation.h"
#include "apps/step_cost_file.h"
#include "base/file.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxTraceBytes = 4ULL << 30;
constexpr std::size_t kMaxSweep = 1000;  // runs

struct SimulateFlags {
  PlannedModelFlags model;
  std::string device = "h100";
  std::string device_file;
  PlanSettings plan;
  SimulationSettings settings;
  TrafficConfig traffic = {.seed = 0, .num_requests = 1000, .qps = 4};
  std::string spread = "uniform";
  std::string trace;
  std::string event_log;
  std::string step_cost;
  std::vector<std::string> sweeps;  // "name=value,value"
  std::string html;
  bool json = false;
};

// The arrivals of one's own server: times, prompts and how long outputs became.
Result<Traffic> traffic_of_log(const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const auto files, event_log_files(name));
  Traffic traffic;
  traffic.source = "an event log";
  Replay replay([&](const Request& request, Instant) {
    Arrival arrival;
    arrival.time = request.arrival();
    arrival.input_len = request.num_prompt_tokens();
    arrival.output_len = std::max(request.num_output_tokens(), 1);
    arrival.priority = request.priority();
    const auto prompt = request.prompt_token_ids();
    arrival.token_ids.assign(prompt.begin(), prompt.end());
    traffic.arrivals.push_back(std::move(arrival));
  });
  ReplayNotes notes;
  QUIRE_RETURN_IF_ERROR(replay_files(
      files, replay, notes, [] { return false; }, [](std::uint64_t, std::uint64_t) {}));
  if (traffic.arrivals.empty()) {
    return Status::invalid_argument(fmt::format("{}: no request of the log has ended", name));
  }
  std::ranges::stable_sort(traffic.arrivals, {}, &Arrival::time);
  const Instant first = traffic.arrivals.front().time;
  for (Arrival& arrival : traffic.arrivals) arrival.time -= first;
  return traffic;
}

Result<Traffic> traffic_of(const SimulateFlags& flags, std::int64_t max_len) {
  if (!flags.event_log.empty()) return traffic_of_log(flags.event_log);
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

// The settings of all runs: every value of each with every one of the others.
Result<std::vector<std::pair<std::vector<std::string>, SimulationSettings>>> all_settings(
    const std::vector<std::string>& texts, const SimulationSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SweptSetting> sweeps, parse_sweeps(texts));
  std::vector<std::pair<std::vector<std::string>, SimulationSettings>> all = {{{}, settings}};
  for (const SweptSetting& sweep : sweeps) {
    auto before = std::exchange(all, {});
    for (const auto& one : before) {
      for (const std::string& value : sweep.values) {
        auto next = one;
        next.first.push_back(sweep.name + "=" + value);
        QUIRE_RETURN_IF_ERROR(set_setting(next.second, sweep.name, value));
        all.push_back(std::move(next));
      }
    }
  }
  return all;
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
  fmt::print("{:<44}{:>11}{:>12}{:>12}{:>12}{:>12}{:>8}{:>8}{:>8}{:>9}{:>12}\n", "settings",
             "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "good", "hits", "waste",
             "preempt.", "USD/million");
  for (const SimulatedRun& run : runs) {
    const SimulationSummary& summary = run.summary;
    fmt::print(
        "{:<44}{:>11.1f}{:>12}{:>12}{:>12}{:>12}{:>7.1f}%{:>7.1f}%{:>7.1f}%{:>9}{:>12}\n",
        fmt::format("{}", fmt::join(run.labels, " ")), summary.output_tokens_per_s,
        time_text(summary.ttft_s.p50), time_text(summary.ttft_s.p99), time_text(summary.tpot_s.p50),
        time_text(summary.tpot_s.p99), summary.good_share * 100, summary.hit_rate * 100,
        summary.kv_waste * 100, summary.num_preemptions,
        summary.usd_per_million_output ? fmt::format("{:.3f}", *summary.usd_per_million_output)
                                       : "-");
  }
  fmt::print("\n{}\n", best_text(runs));
}

Status run_simulate(const SimulateFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(DeviceCatalog catalog, DeviceCatalog::builtin());
  if (!flags.device_file.empty()) QUIRE_RETURN_IF_ERROR(catalog.add_file(flags.device_file));
  QUIRE_RETURN_IF_ERROR(check_dtype(flags.model.dtype));
  QUIRE_ASSIGN_OR_RETURN(const PlanDevice device, catalog.find(flags.device));
  SimulationSettings settings = flags.settings;
  if (!flags.step_cost.empty()) {
    QUIRE_ASSIGN_OR_RETURN(settings.step_cost, read_step_cost(flags.step_cost));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto all, all_settings(flags.sweeps, settings));
  QUIRE_ASSIGN_OR_RETURN(
      const PlannedModel model,
      open_planned_model(flags.model.model, flags.model.dtype, flags.model.max_model_len));
  QUIRE_ASSIGN_OR_RETURN(const Traffic traffic, traffic_of(flags, model.max_len));
  const std::string what = fmt::format("{} on {}, {} requests ({})", model.name, device.title,
                                       traffic.arrivals.size(), traffic.source);
  std::optional<OutputFile> html;
  if (!flags.html.empty()) {
    QUIRE_ASSIGN_OR_RETURN(html, OutputFile::create(flags.html));
  }
  SimulationPage page(what, provenance());
  std::vector<SimulatedRun> runs;
  ProgressBar bar("simulating", "requests");
  const auto num_requests = static_cast<double>(traffic.arrivals.size());
  for (const auto& [labels, chosen] : all) {
    const auto note = fmt::format("{}", fmt::join(labels, " "));
    auto outcome = simulate(model, device, flags.plan, chosen, traffic, [&](std::size_t ended) {
      bar.update(static_cast<double>(ended), num_requests, note);
    });
    bar.clear();
    QUIRE_RETURN_IF_ERROR(outcome.status());
    runs.push_back({.labels = labels, .summary = std::move(outcome->summary)});
    if (html) page.add(runs.back(), outcome->requests);
  }
  if (html) {
    QUIRE_RETURN_IF_ERROR(html->write(page.html(runs, runs.size() > 1 ? best_text(runs) : "")));
    QUIRE_RETURN_IF_ERROR(html->close());
  }
  if (flags.json) {
    json::array list;
    for (const SimulatedRun& run : runs) {
      json::object each = to_json(run.summary);
      each["settings"] = json::array(run.labels.begin(), run.labels.end());
      list.push_back(std::move(each));
    }
    json::object report = {{"model", model.name},
                           {"device", device.name},
                           {"traffic", traffic.source},
                           {"runs", std::move(list)}};
    if (runs.size() > 1) {
      const SimulatedRun& best = best_of(runs);
      report["best"] = json::array(best.labels.begin(), best.labels.end());
    }
    fmt::print("{}\n", json::serialize(report));
    return {};
  }
  fmt::print("{}\n\n", what);
  if (runs.size() == 1) {
    fmt::print("{}", summary_text(runs.front().summary));
  } else {
    print_sweep(runs);
  }
  return {};
}

void add_named_setting(CLI::App& app, const std::string& name, std::string& target,
                       const std::string& description, std::vector<std::string> choices = {}) {
  if (choices.empty()) choices = setting_choices(name.substr(2));
  app.add_option(name, target, description)
      ->type_name("NAME")
      ->check(one_of(std::move(choices)))
      ->capture_default_str();
}

void add_setting_flags(CLI::App& app, SimulationSettings& settings) {
  app.add_option("--tp", settings.tp, "Number of devices of one server")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  app.add_option("--pp", settings.pp,
                 "Stages of a server, of --tp devices and an equal part of the layers each")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  app.add_option("--replicas", settings.replicas, "Servers behind a router")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  app.add_option("--prefill-replicas", settings.prefill_replicas,
                 "Of --replicas, those that compute prompts and hand them over to the others; 0: "
                 "each does both")
      ->type_name("N")
      ->check(whole_number(0, 1023))
      ->capture_default_str();
  app.add_option_function<double>(
         "--transfer-gbs",
         [&settings](double gigabytes) { settings.transfer_bandwidth = gigabytes * 1e9; },
         "GB/s at which a device hands keys and values to another server, or hidden states to "
         "the next stage")
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true))
      ->default_str("50");
  add_named_setting(app, "--router", settings.router, "How requests are distributed to servers");
  add_named_setting(app, "--batching", settings.batching, "When requests may join a batch");
  add_named_setting(app, "--kv", settings.kv,
                    "How the KV cache is allocated: in blocks, or reserved in one piece for the "
                    "longest sequence");
  add_named_setting(app, "--scheduling-policy", settings.policy,
                    "Which waiting request starts first");
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", settings.prefix_caching,
               "Reuse prefixes that were computed before (on)");
  app.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill", settings.chunked_prefill,
               "Spread long prompts over steps (on)");
  add_count(app, "--max-num-seqs", settings.max_num_seqs, "Maximum number of sequences in a step",
            1, 65536);
  add_count(app, "--max-num-batched-tokens", settings.max_num_batched_tokens,
            "Maximum number of tokens in a step", 1, 1 << 24);
  add_count(app, "--block-size", settings.block_size, "Tokens of a KV block", 1, 4096);
  add_count(app, "--kv-tokens", settings.kv_tokens,
            "Tokens in a server's KV cache (default: as many as fit into the memory)", 1, 1 << 30);
  add_count(app, "--num-speculative-tokens", settings.num_speculative_tokens,
            "Drafts of each sequence in each step (speculation)", 0, 32);
  app.add_option("--speculative-acceptance", settings.acceptance,
                 "How often the draft at each place is right, where those before it are; the last "
                 "counts for further places, too")
      ->type_name("SHARE,...")
      ->delimiter(',')
      ->check(number(0, 1));
  add_seconds(app, "--draft-time", settings.draft_s,
              "Time to make one draft for every sequence of a step: 2ms (default: none)");
  add_seconds(app, "--ttft", settings.ttft_s,
              "Goodput counts requests with their first token in this time: 1s, 300ms");
  add_seconds(app, "--tpot", settings.tpot_s,
              "Goodput counts requests with this mean time per further token: 50ms");
}

void add_traffic_flags(CLI::App& app, SimulateFlags& flags) {
  app.add_option("--trace", flags.trace,
                 "File of arrivals, in the format of Azure's or Mooncake's public traces")
      ->type_name("FILE");
  app.add_option("--event-log", flags.event_log,
                 "Arrivals from a server's event log (quire serve --event-log)")
      ->type_name("FILE")
      ->excludes("--trace");
  add_count(app, "--num-requests", flags.traffic.num_requests, "Number of synthetic requests", 1,
            100'000'000);
  app.add_option("--qps", flags.traffic.qps, "Requests per second, at random times; 0: all at once")
      ->type_name("NUMBER")
      ->check(number(0, 1e6))
      ->capture_default_str();
  add_count(app, "--input-len", flags.plan.input_len, "Mean number of tokens of a prompt", 1,
            1 << 24);
  add_count(app, "--output-len", flags.plan.output_len, "Mean number of tokens of an output", 1,
            1 << 24);
  add_named_setting(app, "--length-spread", flags.spread, "How lengths vary around their mean",
                    {"fixed", "uniform", "geometric"});
  add_count(app, "--num-prefixes", flags.traffic.num_prefixes,
            "Number of shared prefixes before the prompts; 0: none", 0, 1 << 24);
  add_count(app, "--prefix-len", flags.traffic.prefix_len, "Tokens of a shared prefix", 0, 1 << 24);
  add_count(app, "--seed", flags.traffic.seed, "Seed of the traffic", 0, 1LL << 40);
}

}  // namespace

Command add_simulate(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  set_help(app, {{{"quire simulate config.json --device h100 --qps 8 --ttft 1s --tpot 50ms",
                   "what users would see with a model on other devices"},
                  {"quire simulate config.json --trace trace.csv --sweep replicas=1,2,4",
                   "how many servers a recorded load needs"}}});
  add_planned_model(app, flags->model, flags->plan.kv_dtype);
  app.add_option("--device", flags->device, "Device of the catalogue (quire plan --list-devices)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--devices", flags->device_file,
                 "File with more devices, in the format of quire plan --list-devices --json")
      ->type_name("FILE");
  app.add_option("--price-per-hour", flags->plan.usd_per_hour,
                 "USD per device and hour, instead of the catalogue's price")
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true));
  app.add_option("--gpu-memory-utilization", flags->plan.capacity.utilization,
                 "Share of a device's memory that may be used")
      ->type_name("SHARE")
      ->check(number(0, 1, /*above=*/true))
      ->capture_default_str();
  add_setting_flags(app, flags->settings);
  add_traffic_flags(app, *flags);
  app.add_option(
         "--step-cost", flags->step_cost,
         "Costs of steps measured by quire bench calibrate, instead of the device's roofline")
      ->type_name("FILE");
  app.add_option("--sweep", flags->sweeps,
                 "Run with each of these values, name=value,value; several flags: all combinations")
      ->type_name("NAME=VALUE,...");
  app.add_option("--html", flags->html, "Write a page with charts into this file")
      ->type_name("FILE");
  app.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_simulate(*flags); };
}

}  // namespace quire
