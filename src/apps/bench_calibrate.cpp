// `quire bench calibrate`: what this machine's steps cost with a model, for `quire simulate`.
#include <algorithm>
#include <fstream>
#include <memory>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "apps/bench_load.h"
#include "apps/commands.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/step_cost_file.h"

namespace quire {
namespace {

struct CalibrateFlags {
  EngineArgs engine;
  std::string output;
  bool json = false;
};

// What steps computed and how long they took; filled on the engine's thread.
class StepWatcher {
 public:
  void add(const StepRecord& record) {
    MeasuredStep step;
    for (const StepShare& share : record.shares) {
      std::int64_t& computed = computed_[share.output_id];
      step.work.add(computed, share.num_tokens);
      computed += share.num_tokens;
    }
    step.time = stopwatch_.taken(record.start, record.end);
    steps_.push_back(step);
  }

  void clear() { steps_.clear(); }
  const std::vector<MeasuredStep>& steps() const { return steps_; }

 private:
  std::vector<MeasuredStep> steps_;
  std::unordered_map<RequestId, std::int64_t> computed_;  // tokens of each output
  StepStopwatch stopwatch_;
};

// Prompts and outputs, short and long, alone and together.
std::vector<LoadShape> calibration_loads(std::int64_t max_len, std::int64_t max_num_seqs) {
  struct Wanted {
    std::int64_t input_len;
    std::int64_t output_len;
    std::int64_t at_once;
    std::int64_t count;
  };
  constexpr Wanted kWanted[] = {{16, 64, 1, 2},  {256, 48, 1, 3},  {64, 48, 4, 8},
                                {512, 32, 4, 8}, {32, 32, 16, 32}, {1024, 16, 2, 4}};
  std::vector<LoadShape> loads;
  for (const Wanted& wanted : kWanted) {
    LoadShape load;
    load.input_len = std::clamp<std::int64_t>(max_len / 2, 1, wanted.input_len);
    load.output_len = std::clamp<std::int64_t>(max_len - load.input_len, 1, wanted.output_len);
    load.concurrency = std::min(wanted.at_once, max_num_seqs);
    load.num_prompts = std::max(wanted.count, load.concurrency);
    load.seed = loads.size();
    loads.push_back(load);
  }
  return loads;
}

Status run_calibrate(const CalibrateFlags& flags) {
  std::ofstream file;  // opened first: a path that is wrong shows at once
  if (!flags.output.empty()) {
    file.open(flags.output);
    if (!file) return Status::io_error(fmt::format("cannot write {}", flags.output));
  }
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  StepWatcher watcher;
  EngineArgs args = flags.engine;
  args.enable_prefix_caching = false;  // every token that is scheduled is computed
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(args, [&watcher](const StepRecord& step) {
                           watcher.add(step);
                         }));
  const std::vector<LoadShape> loads =
      calibration_loads(engine->info().max_model_len, args.max_num_seqs);
  QUIRE_ASSIGN_OR_RETURN(const auto warm, run_load(*engine, loads.front(), interrupt));
  watcher.clear();
  for (const LoadShape& load : loads) {
    QUIRE_ASSIGN_OR_RETURN(const auto result, run_load(*engine, load, interrupt));
  }
  QUIRE_ASSIGN_OR_RETURN(const StepCostFit fit, fit_step_cost(watcher.steps()));
  json::object report = step_cost_json(fit);
  report["num_steps"] = watcher.steps().size();
  if (file.is_open()) {
    file << json::serialize(report) << "\n";
    file.close();
    if (!file) return Status::io_error(fmt::format("cannot write {}", flags.output));
  }
  if (flags.json) {
    fmt::print("{}\n", json::serialize(report));
    return {};
  }
  const StepCost& cost = fit.cost;
  const auto line = [](std::string_view name, std::int64_t nanoseconds) {
    fmt::print("{:<28}{:>12.1f} us\n", name, static_cast<double>(nanoseconds) / 1e3);
  };
  line("a step", cost.step);
  line("a row", cost.row);
  line("1,024 keys of rows", cost.row_keys);
  line("a prompt's token", cost.prompt_token);
  line("1,024 keys of prompts", cost.prompt_keys);
  fmt::print("{} steps, off by {:.1f}% on average\n", watcher.steps().size(), fit.mean_error * 100);
  return {};
}

}  // namespace

Command add_bench_calibrate(CLI::App& bench) {
  auto flags = std::make_shared<CalibrateFlags>();
  set_help(bench, {{{"quire bench calibrate --output costs.json", "the bundled model"},
                    {"quire bench calibrate MODEL --threads 2 --output costs.json",
                     "another; quire simulate --step-cost costs.json"}}});
  bench.add_option("--output", flags->output, "File to write the costs to, for quire simulate")
      ->type_name("FILE");
  bench.add_flag("--json", flags->json, "Print one JSON object");
  add_engine_flags(bench, flags->engine);
  return [flags] { return run_calibrate(*flags); };
}

}  // namespace quire
