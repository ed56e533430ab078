// `quire bench step`: what one step of the engine takes, and where in it the time goes.
#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "apps/bench_step/breakdown.h"
#include "apps/bench_step/chrome_trace.h"
#include "apps/bench_step/step_case.h"
#include "apps/bench_step/step_report.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"

namespace quire {
namespace {

struct StepFlags {
  EngineArgs engine;
  std::vector<std::int64_t> batch_sizes;
  std::vector<std::int64_t> prefill_lens;
  std::int64_t context_len = 128;
  std::int64_t num_steps = 32;
  bool breakdown = false;
  std::string trace;  // a file; empty: none
  bool json = false;
};

std::vector<StepCase> cases_of(const StepFlags& flags) {
  std::vector<std::int64_t> batch_sizes = flags.batch_sizes;
  if (batch_sizes.empty() && flags.prefill_lens.empty()) batch_sizes = {1, 8, 32};
  std::vector<StepCase> cases;
  for (const std::int64_t size : batch_sizes) {
    cases.push_back(
        {.kind = StepCase::Kind::kDecode, .size = size, .context_len = flags.context_len});
  }
  for (const std::int64_t length : flags.prefill_lens) {
    cases.push_back({.kind = StepCase::Kind::kPrefill, .size = length});
  }
  return cases;
}

Status add_to_trace(ChromeTrace& trace, const StepCaseResult& run) {
  const Breakdown engine = break_down(run.profile->engine, run.step_ids);
  const Breakdown output = break_down(run.profile->output, run.step_ids);
  QUIRE_RETURN_IF_ERROR(trace.begin_process(run.shape.name(), engine.begin_ns));
  QUIRE_RETURN_IF_ERROR(
      trace.add_thread("engine", run.profile->engine, engine.begin_ns, engine.end_ns));
  QUIRE_RETURN_IF_ERROR(
      trace.add_thread("executor", run.profile->executor, engine.begin_ns, engine.end_ns));
  if (run.profile->device.num_ended() > 0) {
    QUIRE_RETURN_IF_ERROR(
        trace.add_thread("GPU", run.profile->device, engine.begin_ns, engine.end_ns));
  }
  return trace.add_thread("output", run.profile->output, engine.begin_ns,
                          std::max(engine.end_ns, output.end_ns));
}

json::object describe(const EngineInfo& info) {
  return {{"model", info.model_name},
          {"device", info.device},
          {"isa_level", info.isa_level},
          {"activation", info.activation},
          {"kv_cache_dtype", info.kv_cache_dtype},
          {"threads", info.threads},
          {"weight_bytes", info.weight_bytes}};
}

Status run_step_bench(const StepFlags& flags) {
  if (flags.trace == "-") {
    return Status::invalid_argument("--trace -: standard output has the report", "name a file");
  }
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  const bool traced = !flags.trace.empty();
  std::optional<ChromeTrace> trace;  // opened first: a path that is wrong shows at once
  if (traced) {
    QUIRE_ASSIGN_OR_RETURN(trace, ChromeTrace::create(flags.trace));
  }
  std::vector<StepReport> reports;
  for (const StepCase& shape : cases_of(flags)) {
    QUIRE_ASSIGN_OR_RETURN(auto run, run_step_case(flags.engine, shape, flags.num_steps,
                                                   flags.breakdown || traced, interrupt));
    QUIRE_ASSIGN_OR_RETURN(auto report, make_report(std::move(run)));
    if (traced) QUIRE_RETURN_IF_ERROR(add_to_trace(*trace, report.run));
    report.run.profile.reset();  // large, and analysed by now
    reports.push_back(std::move(report));
  }
  if (traced) QUIRE_RETURN_IF_ERROR(trace->finish());

  if (flags.json) {
    json::array cases;
    for (const StepReport& report : reports) cases.push_back(to_json(report, flags.breakdown));
    const json::object all = {{"engine", describe(reports.front().run.info)},
                              {"cases", std::move(cases)}};
    fmt::print("{}\n", json::serialize(all));
    return {};
  }
  print_times(reports);
  if (!flags.breakdown) return {};
  for (const StepReport& report : reports) print_breakdown(report);
  return {};
}

}  // namespace

Command add_bench_step(CLI::App& bench) {
  auto flags = std::make_shared<StepFlags>();
  const std::string steps = "Steps";
  set_help(bench, {{{"quire bench step --breakdown", "the bundled model, and where its time goes"},
                    {"quire bench step MODEL --batch-size 16 --trace steps.json",
                     "another model, for ui.perfetto.dev"}}});
  comma_list(bench.add_option(
                 "--batch-size", flags->batch_sizes,
                 "Sequences that decode in a step; several values, as in 1,8,32, are measured one "
                 "after the other (default: 1,8,32, or none with --prefill-len)"))
      ->type_name("N,...")
      ->check(whole_number(1, 4096))
      ->group(steps);
  add_count(bench, "--context-len", flags->context_len, "Prompt tokens of a sequence that decodes",
            1, 1 << 24)
      ->group(steps);
  comma_list(bench.add_option("--prefill-len", flags->prefill_lens,
                              "Tokens of a prompt that a step computes; several values as above"))
      ->type_name("N,...")
      ->check(whole_number(1, 1 << 20))
      ->group(steps);
  add_count(bench, "--steps", flags->num_steps, "Steps of each kind to measure", 1, 100'000)
      ->group(steps);
  bench
      .add_flag("--breakdown", flags->breakdown,
                "Show where a step's time goes: bookkeeping, each kernel, sampling")
      ->group(steps);
  bench
      .add_option(
          "--trace", flags->trace,
          "Write the measured steps into this file, for ui.perfetto.dev or chrome://tracing")
      ->type_name("FILE")
      ->group(steps);
  bench.add_flag("--json", flags->json, "Print one JSON object");
  add_engine_flags(bench, flags->engine);
  // --batch-size says it.
  bench.remove_option(bench.get_option("--max-num-seqs"));
  return [flags] { return run_step_bench(*flags); };
}

}  // namespace quire
