#include "apps/simulate/simulate_flags.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "apps/flag_values.h"

namespace quire {
namespace {

void add_named_setting(CLI::App& app, const std::string& name, std::string& target,
                       const std::string& description, std::vector<std::string> choices = {}) {
  if (choices.empty()) choices = setting_choices(name.substr(2));
  app.add_option(name, target, description)
      ->type_name("NAME")
      ->check(one_of(std::move(choices)))
      ->capture_default_str();
}

// One whose value set_setting() reads.
void add_text_setting(CLI::App& app, SimulationSettings& settings, std::string_view name,
                      const std::string& type, const std::string& description) {
  const std::string flag = fmt::format("--{}", name);
  app.add_option_function<std::string>(
         flag,
         [&settings, flag](const std::string& text) {
           const Status set = set_setting(settings, flag.substr(2), text);
           if (!set.ok()) throw CLI::ValidationError(flag, set.message());
         },
         description)
      ->type_name(type);
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
  add_transfer_bandwidth(app, settings.transfer_bandwidth,
                         "GB/s at which a device hands keys and values to another server, or "
                         "hidden states to the next stage");
  add_named_setting(app, "--router", settings.router, "How requests are distributed to servers");
  add_named_setting(app, "--batching", settings.batching, "When requests may join a batch");
  add_text_setting(
      app, settings, "waiting-served-ratio", "RATIO",
      "Start waiting requests beside running ones only when so many wait for each that "
      "runs (0: in any step)");
  add_count(app, "--max-waiting-tokens", settings.max_waiting_tokens,
            "Steps without a start after which they start in any case", 1, 1 << 20);
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
  add_text_setting(app, settings, kMaxStepSetting, "MS",
                   "Limit of a step's duration while other requests generate: milliseconds, 0 (no "
                   "limit) or auto, as for quire serve");
  add_text_setting(app, settings, "kv-offloading-size", "GIB",
                   "Room of each server for KV blocks on disk; 0: none");
  add_text_setting(app, settings, "kv-offload-gbs", "NUMBER",
                   "GB/s at which a server reads KV blocks from disk (2)");
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
  app.add_option(
         "--event-log", flags.event_log,
         "Arrivals from a server's event log (quire serve --event-log); without MODEL: what "
         "its own machine would have done with other settings")
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

void add_simulate_flags(CLI::App& app, SimulateFlags& flags) {
  add_planned_model(app, flags.model, flags.plan.kv_dtype);
  app.add_option("--device", flags.device, "Device of the catalogue (quire plan --list-devices)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--devices", flags.device_file,
                 "File with more devices, in the format of quire plan --list-devices --json")
      ->type_name("FILE");
  app.add_option("--price-per-hour", flags.plan.usd_per_hour,
                 "USD per device and hour, instead of the catalogue's price")
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true));
  app.add_option("--gpu-memory-utilization", flags.plan.capacity.utilization,
                 "Share of a device's memory that may be used")
      ->type_name("SHARE")
      ->check(number(0, 1, /*above=*/true))
      ->capture_default_str();
  add_setting_flags(app, flags.settings);
  add_traffic_flags(app, flags);
  app.add_option(
         "--step-cost", flags.step_cost,
         "Costs of steps measured by quire bench calibrate, instead of the device's roofline")
      ->type_name("FILE");
  app.add_option("--sweep", flags.sweeps,
                 "Run with each of these values, name=value,value; several flags: all combinations")
      ->type_name("NAME=VALUE,...");
  app.add_option("--html", flags.html, "Write a page with charts into this file")
      ->type_name("FILE");
  app.add_flag("--json", flags.json, "Print one JSON object");
}

std::vector<std::string> named_settings(const CLI::App& app) {
  std::vector<std::string> named;
  for (const std::string& name : setting_names()) {
    const CLI::Option* const option = app.get_option("--" + name);
    if (option->count() == 0) continue;
    std::string value = option->results().back();
    if (value == "true") value = "on";  // a flag without a value
    if (value == "false") value = "off";
    named.push_back(fmt::format("{}={}", name, value));
  }
  return named;
}

Status check_flags_of_what_if(const CLI::App& app) {
  constexpr std::array<const char*, 17> kElsewhere = {"--device",
                                                      "--devices",
                                                      "--dtype",
                                                      "--kv-cache-dtype",
                                                      "--max-model-len",
                                                      "--gpu-memory-utilization",
                                                      "--num-requests",
                                                      "--qps",
                                                      "--input-len",
                                                      "--output-len",
                                                      "--length-spread",
                                                      "--num-prefixes",
                                                      "--prefix-len",
                                                      "--seed",
                                                      "--transfer-gbs",
                                                      "--tp",
                                                      "--pp"};
  for (const char* const name : kElsewhere) {
    if (app.get_option(name)->count() == 0) continue;
    return Status::invalid_argument(
        fmt::format("{}: an event log without a MODEL is run again as its own server ran it", name),
        "name a MODEL to simulate the log's traffic elsewhere");
  }
  return {};
}

}  // namespace quire
