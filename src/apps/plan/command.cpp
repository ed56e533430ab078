// `quire plan`: what a model needs and how fast it is on a device, before either is there.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/plan/calculator_numbers.h"
#include "apps/plan/load_report.h"
#include "apps/plan/plan_flags.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/plan_tables.h"
#include "apps/plan/plan_values.h"

namespace quire {
namespace {

constexpr std::int64_t kMostPlanTokens = 1LL << 30;

struct PlanFlags {
  PlannedModelFlags model;
  std::vector<std::string> models;      // of tables
  std::vector<std::string> parameters;  // of the weights' table
  std::string table;
  std::vector<std::string> devices;
  std::string device_file;
  DeviceLayout layout = {.tp = 0, .pp = 0};  // as few as it fits on
  PlanSettings settings;
  std::optional<double> qps;
  std::optional<double> ttft_s;
  std::optional<double> tpot_s;
  bool list_devices = false;
  bool calculator = false;
  bool json = false;
};

void print_json(json::object report) { fmt::print("{}\n", json::serialize(report)); }

Status list_devices(const DeviceCatalog& catalog, bool as_json) {
  if (!as_json) {
    fmt::print("{}", device_list_text(catalog.devices()));
    return {};
  }
  json::array devices;
  for (const PlanDevice& device : catalog.devices()) devices.push_back(to_json(device));
  print_json({{"devices", std::move(devices)}});
  return {};
}

Result<std::vector<PlannedModel>> models_of_table(const PlanFlags& flags) {
  std::vector<std::string> names = flags.models;
  if (names.empty()) names.push_back(flags.model.model);
  std::vector<PlannedModel> models;
  for (const std::string& name : names) {
    auto model = open_planned_model(name, flags.model.dtype, flags.model.max_model_len);
    QUIRE_RETURN_IF_ERROR(model.status());
    models.push_back(std::move(*model));
  }
  return models;
}

Result<PlanTable> make_table(const PlanFlags& flags) {
  if (flags.table == "weights") {
    std::vector<double> counts;
    for (const std::string& text : flags.parameters) {
      QUIRE_ASSIGN_OR_RETURN(const double count, parse_parameters(text));
      counts.push_back(count);
    }
    return weights_table(flags.parameters, counts);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PlannedModel> models, models_of_table(flags));
  if (flags.table == "kv") return kv_table(models, flags.settings);
  if (flags.table == "attention") return attention_table(models, flags.settings);
  if (models.size() > 1) {
    return Status::invalid_argument("--table batch is of one model, and --models names several");
  }
  return batch_table(models.front(), flags.settings);
}

Status print_table(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const PlanTable table, make_table(flags));
  if (flags.json) {
    print_json(table_json(table));
  } else {
    fmt::print("{}", table_text(table));
  }
  return {};
}

Status print_calculator(const PlanFlags& flags, const DeviceCatalog& catalog) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PlannedModel> models, models_of_table(flags));
  QUIRE_ASSIGN_OR_RETURN(json::object numbers, calculator_numbers(models, catalog.devices()));
  print_json(std::move(numbers));
  return {};
}

Status print_load(const PlannedModel& model, const ModelFootprint& whole,
                  const std::vector<PlanDevice>& devices, const PlanFlags& flags) {
  const LoadTarget target = {.qps = *flags.qps,
                             .input_len = flags.settings.input_len,
                             .output_len = flags.settings.output_len,
                             .ttft_s = flags.ttft_s,
                             .tpot_s = flags.tpot_s};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<LoadOption> options,
                         load_options(model, devices, flags.layout, target, flags.settings));
  if (flags.json) {
    json::object report = model_json(model, whole, flags.settings);
    report["qps"] = target.qps;
    report["options"] = load_json(options, target);
    print_json(std::move(report));
  } else {
    fmt::print("{}\n{}", model_text(model, whole, flags.settings), load_text(options, target));
  }
  if (!options.empty() && options.front().obstacle.empty()) return {};
  return Status::resource_exhausted("no device that was looked at carries this load",
                                    "raise --ttft or --tpot, or use a smaller --dtype");
}

Status print_devices(const PlannedModel& model, const ModelFootprint& whole,
                     const std::vector<PlanDevice>& devices, const PlanFlags& flags) {
  std::vector<DevicePlan> plans;
  for (const PlanDevice& device : devices) {
    if (devices.size() > 1 && flags.layout.tp > device.max_tp) continue;
    QUIRE_ASSIGN_OR_RETURN(DevicePlan plan,
                           smallest_device_plan(model, device, flags.layout, flags.settings));
    plans.push_back(std::move(plan));
  }
  if (flags.json) {
    json::object report = model_json(model, whole, flags.settings);
    json::array list;
    for (const DevicePlan& plan : plans) list.push_back(device_plan_json(plan, flags.settings));
    report["plans"] = std::move(list);
    print_json(std::move(report));
  } else {
    fmt::print("{}\n", model_text(model, whole, flags.settings));
    fmt::print("{}", plans.size() == 1 ? device_plan_text(plans.front(), flags.settings)
                                       : overview_text(plans, flags.settings));
  }
  return plans.size() == 1 ? check_fit(model, plans.front(), flags.settings) : Status();
}

Status run_plan(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(DeviceCatalog catalog, DeviceCatalog::builtin());
  if (!flags.device_file.empty()) QUIRE_RETURN_IF_ERROR(catalog.add_file(flags.device_file));
  if (flags.list_devices) return list_devices(catalog, flags.json);
  QUIRE_RETURN_IF_ERROR(check_dtype(flags.model.dtype));
  if (!flags.table.empty()) return print_table(flags);
  if (flags.calculator) return print_calculator(flags, catalog);
  std::vector<PlanDevice> devices = catalog.devices();
  if (!flags.devices.empty()) devices.clear();
  for (const std::string& name : flags.devices) {
    QUIRE_ASSIGN_OR_RETURN(PlanDevice device, catalog.find(name));
    devices.push_back(std::move(device));
  }
  QUIRE_ASSIGN_OR_RETURN(
      const PlannedModel model,
      open_planned_model(flags.model.model, flags.model.dtype, flags.model.max_model_len));
  if (flags.settings.input_len + flags.settings.output_len > model.max_len) {
    return Status::invalid_argument(
        fmt::format("--input-len {} and --output-len {} are more than a sequence of {} tokens",
                    flags.settings.input_len, flags.settings.output_len, model.max_len),
        "raise --max-model-len, or lower one of them");
  }
  QUIRE_ASSIGN_OR_RETURN(const double kv_bytes, kv_number_bytes(flags.settings.kv_dtype, model));
  QUIRE_ASSIGN_OR_RETURN(
      const ModelFootprint whole,
      model_footprint(
          model.spec,
          {.format = model.format, .kv_bytes = kv_bytes, .tp = 1, .max_len = model.max_len}));
  if (flags.qps) return print_load(model, whole, devices, flags);
  return print_devices(model, whole, devices, flags);
}

void add_load_flags(CLI::App& app, PlanFlags& flags) {
  app.add_option("--qps", flags.qps, "Find the cheapest devices for this many requests per second")
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true));
  add_count(app, "--input-len", flags.settings.input_len, "Tokens of a prompt", 1, kMostPlanTokens);
  add_count(app, "--output-len", flags.settings.output_len, "Tokens of an output", 1,
            kMostPlanTokens);
  add_seconds(app, "--ttft", flags.ttft_s, "Mean time to the first token at most: 1s, 300ms");
  add_seconds(app, "--tpot", flags.tpot_s, "Time for each further token at most: 50ms");
  app.add_option("--price-per-hour", flags.settings.usd_per_hour,
                 "USD per device and hour, instead of the catalogue's price")
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true));
}

void add_device_flags(CLI::App& app, PlanFlags& flags) {
  comma_list(app.add_option("--device", flags.devices,
                            "Devices of the catalogue (default: all, each with the smallest number "
                            "that can hold the model)"))
      ->type_name("NAME,...");
  app.add_option("--devices", flags.device_file,
                 "File with more devices, in the format of --list-devices --json")
      ->type_name("FILE");
  app.add_flag("--list-devices", flags.list_devices,
               "Print the catalogue of devices: figures, prices, sources");
  app.add_option("--tp", flags.layout.tp,
                 "Number of devices that each layer is divided over (default: as few as possible)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  app.add_option("--pp", flags.layout.pp,
                 "Number of stages with a part of the layers each, of --tp devices (default: 1, "
                 "unless one stage cannot hold the model or, with --qps, more are cheaper)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  add_transfer_bandwidth(app, flags.settings.network,
                         "Network of a device in GB/s, for stages that no links connect");
}

void add_model_flags(CLI::App& app, PlanFlags& flags) {
  add_planned_model(app, flags.model, flags.settings.kv_dtype);
  CapacityOptions& capacity = flags.settings.capacity;
  add_count(app, "--max-num-seqs", capacity.max_num_seqs, "Maximum number of sequences at once", 1,
            1 << 20);
  add_count(app, "--max-num-batched-tokens", capacity.batched_tokens,
            "Maximum number of tokens in a step", 1, 1 << 24);
  add_count(app, "--block-size", capacity.block_size, "Tokens of a KV block", 1, 4096);
  app.add_option("--gpu-memory-utilization", capacity.utilization,
                 "Share of a device's memory that may be used")
      ->type_name("SHARE")
      ->check(number(0, 1, /*above=*/true))
      ->capture_default_str();
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  flags->parameters = {"7B", "8B", "13B", "34B", "70B", "405B", "671B"};
  set_help(app, {{{"quire plan config.json --device h100 --tp 4",
                   "memory, roofline, times and cost of a model on other devices"},
                  {"quire plan config.json --qps 5 --input-len 2k --output-len 300 --tpot 50ms",
                   "the cheapest devices for a load"}}});
  add_model_flags(app, *flags);
  add_device_flags(app, *flags);
  add_load_flags(app, *flags);
  app.add_option("--table", flags->table,
                 "Print a table instead: weights by type, KV bytes of models, kinds of attention "
                 "side by side, batches of 1 to 32 (docs/planning.md)")
      ->type_name("KIND")
      ->check(one_of({"weights", "kv", "attention", "batch"}));
  app.add_flag("--calculator", flags->calculator,
               "Print the numbers of a calculator page (docs/planning.md) as JSON: the model's, or "
               "those of --models");
  comma_list(app.add_option("--models", flags->models,
                            "Models of a table or a calculator, named like MODEL"))
      ->type_name("MODEL,...");
  comma_list(app.add_option("--parameters", flags->parameters,
                            "Sizes in the table of weights: 350M, 7B, 1.5T"))
      ->type_name("COUNT,...")
      ->capture_default_str();
  app.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_plan(*flags); };
}

}  // namespace quire
