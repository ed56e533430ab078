// `quire bench serve`: the flags, and where the report goes. Flags that vLLM's `vllm bench serve`
// has, too, have its names and defaults.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "apps/bench_serve/measurement.h"
#include "apps/bench_serve/report_html.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/output_file.h"

namespace quire {
namespace {

using bench::Dataset;
using bench::MeasurementPlan;
using bench::Report;

constexpr std::int64_t kMaxCount = 1 << 24;

struct Flags {
  MeasurementPlan plan;
  std::string backend;
  std::string endpoint;
  std::string dataset = "random";
  std::vector<std::string> goodput;
  std::optional<double> burstiness;
  std::optional<std::string> extra_body;
  std::string timestamp_unit = "s";
  bool json = false;
  std::string html;
};

Status check_rates(const Flags& flags) {
  const MeasurementPlan& plan = flags.plan;
  bool all_infinite = true;
  for (const double rate : plan.request_rates) {
    if (!(rate > 0)) {
      return Status::invalid_argument(
          fmt::format("--request-rate {:g}: expected requests a second, above 0, or inf", rate));
    }
    all_infinite = all_infinite && std::isinf(rate);
  }
  if (plan.request_rates.size() > 1 && plan.max_concurrency.size() > 1) {
    return Status::invalid_argument("--request-rate and --max-concurrency both have several values",
                                    "sweep over one of them");
  }
  if (plan.workload.dataset == Dataset::kTrace &&
      !(all_infinite && plan.request_rates.size() == 1)) {
    return Status::invalid_argument("--request-rate does not go with --dataset-name trace",
                                    "the trace says when requests arrive");
  }
  if (flags.burstiness && all_infinite) {
    return Status::invalid_argument("--burstiness does not go with requests that arrive at once",
                                    "give a --request-rate");
  }
  return {};
}

Status check_dataset(const bench::WorkloadFlags& workload, const std::string& name) {
  const bool wants_file =
      workload.dataset == Dataset::kJsonl || workload.dataset == Dataset::kTrace;
  if (wants_file && workload.path.empty()) {
    return Status::invalid_argument(fmt::format("--dataset-name {} needs --dataset-path", name));
  }
  if (!wants_file && !workload.path.empty()) {
    return Status::invalid_argument(
        fmt::format("--dataset-path does not go with --dataset-name {}", name),
        "jsonl and trace read files");
  }
  return {};
}

// What follows from the flags together.
Status complete(Flags& flags) {
  static const std::map<std::string, Dataset> kDatasets = {{"random", Dataset::kRandom},
                                                           {"prefix", Dataset::kPrefix},
                                                           {"prefix_repetition", Dataset::kPrefix},
                                                           {"jsonl", Dataset::kJsonl},
                                                           {"custom", Dataset::kJsonl},
                                                           {"trace", Dataset::kTrace}};
  MeasurementPlan& plan = flags.plan;
  plan.workload.dataset = kDatasets.at(flags.dataset);
  plan.workload.timestamps_in_ms = flags.timestamp_unit == "ms";
  if (flags.backend == "openai-chat") plan.endpoint = "/v1/chat/completions";
  if (!flags.endpoint.empty()) plan.endpoint = flags.endpoint;
  QUIRE_RETURN_IF_ERROR(check_rates(flags));
  QUIRE_RETURN_IF_ERROR(check_dataset(plan.workload, flags.dataset));
  plan.burstiness = flags.burstiness.value_or(1);
  QUIRE_ASSIGN_OR_RETURN(plan.objectives, bench::parse_objectives(flags.goodput));
  if (flags.extra_body) {
    QUIRE_ASSIGN_OR_RETURN(const json::value extra, parse_json(*flags.extra_body, "--extra-body"));
    if (!extra.is_object()) return Status::invalid_argument("--extra-body: expected a JSON object");
    plan.format.extra = extra.get_object();
  }
  return {};
}

// 69 where a request failed, 130 after an interrupt; the report has been printed in both cases.
Status verdict(const Report& report) {
  std::int64_t failed = 0;
  std::int64_t planned = 0;
  bool interrupted = false;
  for (const bench::Level& level : report.levels) {
    failed += level.summary.failed;
    planned += level.summary.planned;
    interrupted = interrupted || level.run.interrupted;
  }
  if (interrupted) return {StatusCode::kCancelled, "interrupted"};
  if (failed == 0) return {};
  return Status::unavailable(fmt::format("{} of {} requests failed", failed, planned));
}

Status run_bench_serve(Flags flags) {
  QUIRE_RETURN_IF_ERROR(complete(flags));
  std::optional<OutputFile> html;
  Provenance made;  // when it begins
  if (!flags.html.empty()) {
    made = provenance();
    QUIRE_ASSIGN_OR_RETURN(html, OutputFile::create(flags.html));
  }
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  QUIRE_ASSIGN_OR_RETURN(const Report report, bench::measure(flags.plan, interrupt));
  if (flags.json) {
    fmt::print("{}\n", json::serialize(bench::to_json(report)));
  } else {
    fmt::print("{}", bench::to_text(report));
  }
  if (html) {
    QUIRE_RETURN_IF_ERROR(html->write(bench::to_html(report, made)));
    QUIRE_RETURN_IF_ERROR(html->close());
  }
  return verdict(report);
}

void add_server_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Server";
  MeasurementPlan& plan = flags.plan;
  app.add_option("--base-url", plan.base_url, "Address of the server")
      ->type_name("URL")
      ->capture_default_str()
      ->group(group);
  app.add_option("--endpoint", flags.endpoint, "Route to use (default: /v1/completions)")
      ->check(one_of({"/v1/completions", "/v1/chat/completions"}))
      ->type_name("ROUTE")
      ->group(group);
  app.add_option("--backend", flags.backend, "Kind of server; openai-chat: chat completions")
      ->check(one_of({"openai", "vllm", "openai-chat"}))
      ->type_name("KIND")
      ->group(group);
  app.add_option("--model", plan.model, "Model in the requests (default: the first of /v1/models)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--api-key", plan.api_key, "The server's key")
      ->envname("QUIRE_API_KEY")
      ->type_name("KEY")
      ->group(group);
  app.add_flag("--insecure", plan.insecure, "Do not verify the server's certificate")->group(group);
  app.add_option("--timeout", plan.timeout, "Maximum duration of a request")
      ->check(number(0, 1e6, true))
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(group);
}

void add_load_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Load";
  MeasurementPlan& plan = flags.plan;
  add_count(app, "--num-prompts", plan.workload.num_prompts,
            "Requests of each run (default: 1000, or all lines of a file)", 1, kMaxCount)
      ->group(group);
  comma_list(app.add_option("--request-rate", plan.request_rates,
                            "Arriving requests per second; inf: all at once; several values, as in "
                            "1,2,4, run one after the other (default: inf)"))
      ->type_name("R,...")
      ->group(group);
  app.add_option("--burstiness", flags.burstiness,
                 "1: a Poisson process; below 1: bursts; above 1: steadier (default: 1)")
      ->check(number(0.01, 1e6))
      ->type_name("B")
      ->group(group);
  comma_list(app.add_option(
                 "--max-concurrency", plan.max_concurrency,
                 "At most this many requests in flight; several values run one after the other"))
      ->check(whole_number(1, 1 << 20))
      ->type_name("N,...")
      ->group(group);
  add_count(app, "--num-warmups", plan.num_warmups, "Requests before the measurement", 0, kMaxCount)
      ->group(group);
  app.add_option("--seed", plan.workload.seed, "Seed of prompts and arrivals")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

void add_prompt_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Prompts";
  bench::WorkloadFlags& workload = flags.plan.workload;
  app.add_option("--dataset-name", flags.dataset,
                 "prefix, prefix_repetition: shared prefixes; jsonl, custom: a file of prompts; "
                 "trace: a file with arrival times")
      ->check(one_of({"random", "prefix", "prefix_repetition", "jsonl", "custom", "trace"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_option("--dataset-path", workload.path, "File of jsonl and trace; - is standard input")
      ->type_name("FILE")
      ->group(group);
  const auto length = [&](const char* names, std::int64_t& target, const char* description) {
    add_count(app, names, target, description, 1, kMaxCount)->group(group);
  };
  length("--random-input-len,--input-len", workload.input_len, "random: prompt tokens");
  length("--random-output-len,--output-len,--prefix-repetition-output-len", workload.output_len,
         "Output tokens, at most");
  app.add_option("--random-range-ratio", workload.range_ratio,
                 "Lengths are uniform within this share above and below")
      ->check(number(0, 1))
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(group);
  length("--prefix-len,--prefix-repetition-prefix-len", workload.prefix_len,
         "prefix: tokens of a shared prefix");
  length("--suffix-len,--prefix-repetition-suffix-len", workload.suffix_len,
         "prefix: tokens after it");
  length("--num-prefixes,--prefix-repetition-num-prefixes", workload.num_prefixes,
         "prefix: number of different prefixes");
  app.add_option("--timestamp-unit", flags.timestamp_unit, "trace: unit of \"timestamp\"")
      ->check(one_of({"s", "ms"}))
      ->type_name("UNIT")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--ignore-eos", flags.plan.format.ignore_eos,
               "Outputs continue to their full length (on servers with ignore_eos)")
      ->group(group);
  app.add_option("--temperature", flags.plan.format.temperature, "Of all requests")
      ->check(number(0, 1e6))
      ->type_name("T")
      ->capture_default_str()
      ->group(group);
  app.add_option("--extra-body", flags.extra_body, "Additional fields of every request")
      ->type_name("JSON")
      ->group(group);
}

}  // namespace

Command add_bench_serve(CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  set_help(bench, {{{"quire bench serve --num-prompts 100 --max-concurrency 8",
                     "the server on http://localhost:8000, eight requests at once"},
                    {"quire bench serve --base-url URL --request-rate 1,2,4 --html load.html",
                     "another, under three rates, as a page with charts"}}});
  add_server_flags(bench, *flags);
  add_load_flags(bench, *flags);
  add_prompt_flags(bench, *flags);
  const std::string group = "Report";
  bench
      .add_option(
          "--goodput", flags->goodput,
          "Count the requests that meet these objectives, in ms: ttft:500 tpot:50 e2el:2000")
      ->expected(1, 3)
      ->type_name("OBJECTIVE")
      ->group(group);
  bench.add_flag("--json", flags->json, "Print one JSON object")->group(group);
  bench.add_option("--html", flags->html, "Write a page with charts into this file")
      ->type_name("FILE")
      ->group(group);
  bench.footer(
      "Exit code: 0 when all requests were answered, 69 when one failed (the report says which and "
      "why), 130 after an interrupt.");
  return [flags] { return run_bench_serve(*flags); };
}

}  // namespace quire
