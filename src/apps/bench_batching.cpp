#include "apps/bench_batching.h"

#include <fstream>

#include <fmt/format.h>

#include "apps/engine_flags.h"
#include "apps/step_trace.h"
#include "apps/timeline_page.h"

namespace quire {
namespace {

struct Run {
  std::string batching;
  std::int64_t slots = 0;
  LoadResult load;
  StepTrace trace;
  TraceSummary summary;

  double tokens_per_s() const { return load.output_tokens_per_s(); }
  // Had finished rows been skipped, the run would have been shorter by what they cost.
  double tokens_per_s_without_discarded() const {
    const double saved = summary.busy_s - summary.busy_without_discarded_s;
    return static_cast<double>(load.output_tokens) / (load.elapsed_s - saved);
  }
};

Result<Run> run_once(const BatchingBench& bench, const std::string& batching, std::int64_t slots,
                     const InterruptWatcher& interrupt) {
  EngineArgs args = bench.engine;
  args.batching = batching;
  args.max_num_seqs = static_cast<std::int32_t>(slots);
  Run run = {.batching = batching,
             .slots = slots,
             .load = {},
             .trace = StepTrace(args.max_num_seqs),
             .summary = {}};
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(args, [&run](const StepRecord& step) {
                           run.trace.add(step);
                         }));
  LoadShape warm_up = bench.load;
  warm_up.num_prompts = 1;
  warm_up.max_geometric_len.reset();
  QUIRE_ASSIGN_OR_RETURN(const auto warm, run_load(*engine, warm_up, interrupt));
  run.trace.clear();
  LoadShape load = bench.load;
  load.concurrency = load.num_prompts;
  QUIRE_ASSIGN_OR_RETURN(run.load, run_load(*engine, load, interrupt));
  run.summary = run.trace.summary();
  return run;
}

json::object to_json(const Run& run) {
  json::object report = to_json(run.load);
  const TraceSummary& summary = run.summary;
  report["batching"] = run.batching;
  report["slots"] = run.slots;
  report["num_steps"] = summary.num_steps;
  report["slot_occupancy"] = summary.slot_occupancy;
  report["tokens_computed"] = summary.tokens_computed;
  report["tokens_discarded"] = summary.tokens_discarded;
  report["tokens_wanted"] = summary.outputs_wanted;
  report["output_tokens_per_s_without_discarded"] = run.tokens_per_s_without_discarded();
  return report;
}

void print_table(const std::vector<Run>& runs) {
  fmt::print("{:<12}{:>6}{:>12}{:>8}{:>10}{:>10}{:>11}{:>8}{:>10}{:>9}{:>11}\n", "batching",
             "slots", "output", "ratio", "TTFT p50", "TTFT p99", "occupancy", "steps", "computed",
             "wanted", "discarded");
  fmt::print("{:<12}{:>6}{:>12}{:>8}{:>10}{:>10}{:>11}{:>8}{:>10}{:>9}{:>11}\n", "", "", "tokens/s",
             "", "ms", "ms", "", "", "tokens", "tokens", "tokens");
  for (const Run& run : runs) {
    const Statistics ttft = statistics(run.load.ttft_s);
    fmt::print("{:<12}{:>6}{:>12.1f}{:>7.2f}x{:>10.0f}{:>10.0f}{:>10.1f}%{:>8}{:>10}{:>9}{:>11}\n",
               run.batching, run.slots, run.tokens_per_s(),
               run.tokens_per_s() / runs[0].tokens_per_s(), ttft.p50 * 1e3, ttft.p99 * 1e3,
               run.summary.slot_occupancy * 100, run.summary.num_steps, run.summary.tokens_computed,
               run.summary.outputs_wanted, run.summary.tokens_discarded);
    if (run.summary.tokens_discarded == 0) continue;
    const double skipped = run.tokens_per_s_without_discarded();
    fmt::print("{:<12}{:>6}{:>12.1f}{:>7.2f}x  (computed from the steps' times)\n", "  if skipped",
               "", skipped, skipped / runs[0].tokens_per_s());
  }
}

Status write_timeline(std::ofstream& file, const std::string& path, const std::vector<Run>& runs) {
  std::vector<TimelineRun> pictures;
  for (const Run& run : runs) {
    pictures.push_back({.name = fmt::format("{}, {} slots", run.batching, run.slots),
                        .caption = fmt::format("{:.1f} tokens/s, slot occupancy {:.0f}%, {} steps",
                                               run.tokens_per_s(), run.summary.slot_occupancy * 100,
                                               run.summary.num_steps),
                        .trace = &run.trace});
  }
  file << timeline_page(pictures);
  file.close();
  if (!file) return Status::io_error(fmt::format("cannot write {}", path));
  return {};
}

}  // namespace

Status run_batching_bench(const BatchingBench& bench) {
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  std::ofstream timeline;  // opened first: a path that is wrong shows at once
  if (!bench.timeline.empty()) {
    timeline.open(bench.timeline);
    if (!timeline) return Status::io_error(fmt::format("cannot write {}", bench.timeline));
  }
  std::vector<std::int64_t> sizes = bench.batch_sizes;
  if (sizes.empty()) sizes.push_back(bench.engine.max_num_seqs);
  std::vector<std::string> policies = {bench.engine.batching};
  if (bench.all_policies) policies = {"static", "dynamic", "continuous"};

  std::vector<Run> runs;
  for (const std::int64_t slots : sizes) {
    for (const std::string& policy : policies) {
      QUIRE_ASSIGN_OR_RETURN(auto run, run_once(bench, policy, slots, interrupt));
      runs.push_back(std::move(run));
      if (runs.back().load.output_hash != runs[0].load.output_hash) {
        return Status::internal(
            fmt::format("{} batching with {} slots gave other tokens than {} with {}", policy,
                        slots, runs[0].batching, runs[0].slots));
      }
    }
  }
  if (!bench.timeline.empty())
    QUIRE_RETURN_IF_ERROR(write_timeline(timeline, bench.timeline, runs));
  if (bench.json) {
    json::array all;
    for (const Run& run : runs) all.push_back(to_json(run));
    fmt::print("{}\n", json::serialize(json::object({{"runs", std::move(all)}})));
    return {};
  }
  fmt::print("{} requests at once: {} tokens in, {} out; the same tokens in every run\n\n",
             bench.load.num_prompts, bench.load.input_len,
             bench.load.max_geometric_len
                 ? fmt::format("geometric lengths (mean {}, at most {})", bench.load.output_len,
                               *bench.load.max_geometric_len)
                 : fmt::format("{}", bench.load.output_len));
  print_table(runs);
  return {};
}

}  // namespace quire
