// `quire bench calibrate`: what this machine's steps cost with a model, for `quire simulate`.
#include <algorithm>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/bench_load.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/step_times_file.h"
#include "base/log.h"
#include "sim/step_times_fit.h"

namespace quire {
namespace {

struct CalibrateFlags {
  EngineArgs engine;
  std::string output;
  std::int64_t rounds = 5;
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

  std::vector<MeasuredStep> take() { return std::exchange(steps_, {}); }

 private:
  std::vector<MeasuredStep> steps_;
  std::unordered_map<RequestId, std::int64_t> computed_;  // tokens of each output
  StepStopwatch stopwatch_;
};

// Outputs of one sequence and of more at once, prompts short and long, alone and beside outputs.
std::vector<LoadShape> calibration_loads(std::int64_t max_len, std::int64_t max_num_seqs) {
  struct Wanted {
    std::int64_t input_len;
    std::int64_t output_len;
    std::int64_t at_once;
    std::int64_t count;
  };
  constexpr Wanted kWanted[] = {{16, 24, 1, 2},  {64, 24, 2, 4},   {96, 24, 4, 8},
                                {64, 24, 8, 16}, {32, 24, 16, 24}, {32, 24, 32, 32},
                                {256, 24, 2, 3}, {1024, 24, 1, 1}};
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

// Rounds of all loads, one round after the other, so that a machine that is slow for some seconds
// is so for steps of every kind. Each has an engine of its own: where memory comes to lie is a
// matter of luck that a start settles.
Result<std::vector<std::vector<MeasuredStep>>> measure_rounds(const CalibrateFlags& flags,
                                                              const InterruptWatcher& interrupt) {
  EngineArgs args = flags.engine;
  args.enable_prefix_caching = false;  // every token that is scheduled is computed
  std::vector<std::vector<MeasuredStep>> rounds;
  for (std::int64_t round = 0; round < flags.rounds; ++round) {
    StepWatcher watcher;
    QUIRE_ASSIGN_OR_RETURN(
        const auto engine,
        start_engine(args, [&watcher](const StepRecord& step) { watcher.add(step); }));
    const std::vector<LoadShape> loads =
        calibration_loads(engine->info().max_model_len, args.max_num_seqs);
    QUIRE_ASSIGN_OR_RETURN(const auto warm, run_load(*engine, loads.front(), interrupt));
    watcher.take();
    for (const LoadShape& load : loads) {
      QUIRE_ASSIGN_OR_RETURN(const auto result, run_load(*engine, load, interrupt));
    }
    rounds.push_back(watcher.take());
  }
  return rounds;
}

constexpr double kWide = 0.15;  // of rounds that are called apart

std::vector<std::vector<StepKind>> kinds_of_rounds(
    const StepTimes& times, std::span<const std::vector<MeasuredStep>> rounds) {
  std::vector<std::vector<StepKind>> kinds;
  for (const auto& round : rounds) kinds.push_back(step_kinds(times, round));
  return kinds;
}

// A machine may be slow for some seconds, half as fast where others share its cores, and steps of
// one kind meet that more often than those of another. So of each kind those rounds count in which
// it took the least, or little more.
std::vector<MeasuredStep> undisturbed(const StepTimes& times,
                                      std::span<const std::vector<MeasuredStep>> rounds) {
  const std::vector<std::vector<StepKind>> kinds = kinds_of_rounds(times, rounds);
  std::unordered_map<std::int64_t, double> least;
  for (const auto& round : kinds) {
    for (const StepKind& kind : round) {
      double& factor = least.try_emplace(kind.first_tokens, kind.factor).first->second;
      factor = std::min(factor, kind.factor);
    }
  }
  std::vector<MeasuredStep> kept;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    for (const MeasuredStep& step : rounds[i]) {
      const StepKind* kind = find_kind(kinds[i], tokens_of(step.work));
      if (kind == nullptr || kind->factor <= (1 + kWide) * least.at(kind->first_tokens)) {
        kept.push_back(step);
      }
    }
  }
  return kept;
}

// Steps of one kind, and how far rounds were apart in what these took.
struct KindSpread {
  StepKind kind;
  double spread = 0;  // of the slowest round to the fastest, relative
};

std::vector<KindSpread> spreads_of(const StepTimes& times, std::span<const MeasuredStep> steps,
                                   std::span<const std::vector<MeasuredStep>> rounds) {
  const std::vector<std::vector<StepKind>> of_rounds = kinds_of_rounds(times, rounds);
  std::vector<KindSpread> spreads;
  for (const StepKind& kind : step_kinds(times, steps)) {
    std::vector<double> factors;
    for (const auto& round : of_rounds) {
      const StepKind* found = find_kind(round, kind.first_tokens);
      if (found != nullptr) factors.push_back(found->factor);
    }
    if (factors.empty()) continue;
    const auto [least, most] = std::ranges::minmax(factors);
    spreads.push_back({.kind = kind, .spread = most / least - 1});
  }
  return spreads;
}

json::object calibration_json(const StepTimesFit& fit, std::size_t num_steps,
                              const std::vector<KindSpread>& spreads) {
  json::object report = step_times_json(fit.times);
  report["mean_error"] = fit.mean_error;
  report["num_steps"] = num_steps;
  json::array kinds;
  for (const auto& [kind, spread] : spreads) {
    kinds.push_back({{"from_tokens", kind.first_tokens},
                     {"num_steps", kind.num_steps},
                     {"measured_to_fitted", kind.factor},
                     {"spread", spread}});
  }
  report["kinds"] = std::move(kinds);
  return report;
}

void print_calibration(const StepTimesFit& fit, std::size_t num_steps,
                       const std::vector<KindSpread>& spreads) {
  const auto line = [](const std::string& name, double nanoseconds) {
    fmt::print("{:<28}{:>12.1f} us\n", name, nanoseconds / 1e3);
  };
  for (const auto& [tokens, time] : fit.times.tokens) {
    line(fmt::format("a step of {} token{}", tokens, tokens == 1 ? "" : "s"), time);
  }
  line("a row besides", fit.times.row);
  line("1,024 keys of rows", fit.times.row_keys);
  line("1,024 keys of prompts", fit.times.prompt_keys);
  fmt::print("{} steps, off by {:.1f}% on average\n\n", num_steps, fit.mean_error * 100);
  fmt::print("{:<20}{:>8}{:>22}{:>18}\n", "tokens of a step", "steps", "measured to fitted",
             "rounds differ by");
  for (const auto& [kind, spread] : spreads) {
    fmt::print("{:<20}{:>8}{:>21.1f}%{:>17.1f}%\n", tokens_text(kind), kind.num_steps,
               (kind.factor - 1) * 100, spread * 100);
  }
}

// Where the same steps took so much more in one round than in another, something else ran, or the
// processor's clock changed.
void warn_of_spread(const std::vector<KindSpread>& spreads) {
  for (const auto& [kind, spread] : spreads) {
    if (spread <= kWide) continue;
    log_warning(
        "steps of {} took up to {:.0f}% more in one round than in another, and those rounds "
        "do not count: measure again while nothing else runs, or with more --rounds",
        kind.first_tokens == 1 ? "1 token" : tokens_text(kind) + " tokens", spread * 100);
  }
}

Status run_calibrate(const CalibrateFlags& flags) {
  std::ofstream file;  // opened first: a path that is wrong shows at once
  if (!flags.output.empty()) {
    file.open(flags.output);
    if (!file) return Status::io_error(fmt::format("cannot write {}", flags.output));
  }
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  QUIRE_ASSIGN_OR_RETURN(const auto rounds, measure_rounds(flags, interrupt));
  std::vector<MeasuredStep> steps;
  for (const auto& round : rounds) steps.insert(steps.end(), round.begin(), round.end());
  QUIRE_ASSIGN_OR_RETURN(const StepTimesFit all, fit_step_times(steps));
  steps = undisturbed(all.times, rounds);
  QUIRE_ASSIGN_OR_RETURN(const StepTimesFit fit, fit_step_times(steps));
  const std::vector<KindSpread> spreads = spreads_of(fit.times, steps, rounds);
  const json::object report = calibration_json(fit, steps.size(), spreads);
  if (file.is_open()) {
    file << json::serialize(report) << "\n";
    file.close();
    if (!file) return Status::io_error(fmt::format("cannot write {}", flags.output));
  }
  if (flags.json) {
    fmt::print("{}\n", json::serialize(report));
  } else {
    print_calibration(fit, steps.size(), spreads);
  }
  warn_of_spread(spreads);
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
  add_count(bench, "--rounds", flags->rounds,
            "How often everything is measured, each time by a new engine", 1, 1000);
  bench.add_flag("--json", flags->json, "Print one JSON object");
  add_engine_flags(bench, flags->engine);
  return [flags] { return run_calibrate(*flags); };
}

}  // namespace quire
