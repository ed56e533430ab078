// `quire bench latency` and `quire bench throughput`: an engine in this process under a closed
// load.
#include <memory>

#include <fmt/format.h>

#include "apps/bench_batching.h"
#include "apps/bench_load.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"

namespace quire {
namespace {

struct BenchFlags {
  EngineArgs engine;
  LoadShape load;
  std::vector<std::int64_t> concurrency;  // empty: max_num_seqs
  bool json = false;
  // Set: one workload under several numbers of slots or ways of batching.
  std::vector<std::int64_t> batch_sizes;
  bool compare_batching = false;
  std::string timeline;
};

json::object describe(const EngineInfo& info) {
  return {{"model", info.model_name},
          {"device", info.device},
          {"isa_level", info.isa_level},
          {"activation", info.activation},
          {"kv_cache_dtype", info.kv_cache_dtype},
          {"threads", info.threads},
          {"weight_bytes", info.weight_bytes},
          {"kv_cache_bytes", info.kv_cache_bytes}};
}

void print_header(const EngineInfo& info) {
  fmt::print("{}, {} threads, level {}, activations {}, KV cache {}\n", info.model_name,
             info.threads, info.isa_level, info.activation, info.kv_cache_dtype);
}

// One warm-up request, so that page faults of a first use are not counted, then each level.
Result<std::vector<LoadResult>> run_levels(Engine& engine, const BenchFlags& flags,
                                           const std::vector<std::int64_t>& levels) {
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  LoadShape warm_up = flags.load;
  warm_up.num_prompts = 1;
  warm_up.concurrency = 1;
  QUIRE_ASSIGN_OR_RETURN(const auto warm, run_load(engine, warm_up, interrupt));
  std::vector<LoadResult> results;
  for (const std::int64_t level : levels) {
    LoadShape shape = flags.load;
    shape.concurrency = level;
    QUIRE_ASSIGN_OR_RETURN(auto result, run_load(engine, shape, interrupt));
    results.push_back(std::move(result));
  }
  return results;
}

Status run_latency(const BenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const auto results, run_levels(*engine, flags, {1}));
  const LoadResult& result = results[0];
  if (flags.json) {
    json::object report = to_json(result);
    report["engine"] = describe(engine->info());
    fmt::print("{}\n", json::serialize(report));
    return {};
  }
  print_header(engine->info());
  fmt::print("{} requests, one at a time: {} tokens in, {} out\n\n{:<18}{:>10}{:>10}{:>10}{:>10}\n",
             flags.load.num_prompts, flags.load.input_len, flags.load.output_len, "", "mean", "p50",
             "p90", "p99");
  const auto row = [](std::string_view name, const Statistics& s) {
    fmt::print("{:<18}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, s.mean * 1e3, s.p50 * 1e3,
               s.p90 * 1e3, s.p99 * 1e3);
  };
  row("TTFT, ms", statistics(result.ttft_s));
  row("TPOT, ms", statistics(result.tpot_s));
  fmt::print("{:<18}{:>10.1f}\n", "output tokens/s", result.output_tokens_per_s());
  return {};
}

Status run_throughput(const BenchFlags& flags) {
  if (flags.compare_batching || !flags.batch_sizes.empty() || !flags.timeline.empty()) {
    if (!flags.concurrency.empty()) {
      return Status::invalid_argument(
          "--concurrency does not go with --compare-batching, --batch-sizes or --timeline",
          "these submit all requests at once; --max-num-seqs or --batch-sizes say how many run");
    }
    return run_batching_bench({.engine = flags.engine,
                               .load = flags.load,
                               .batch_sizes = flags.batch_sizes,
                               .all_policies = flags.compare_batching,
                               .timeline = flags.timeline,
                               .json = flags.json});
  }
  QUIRE_ASSIGN_OR_RETURN(const auto engine, start_engine(flags.engine));
  std::vector<std::int64_t> levels = flags.concurrency;
  if (levels.empty()) levels.push_back(flags.engine.max_num_seqs);
  QUIRE_ASSIGN_OR_RETURN(const auto results, run_levels(*engine, flags, levels));
  if (flags.json) {
    // The last level's figures at the top, all levels below.
    json::object report = to_json(results.back());
    report["engine"] = describe(engine->info());
    json::array all;
    for (const LoadResult& result : results) all.push_back(to_json(result));
    report["levels"] = std::move(all);
    fmt::print("{}\n", json::serialize(report));
    return {};
  }
  print_header(engine->info());
  fmt::print("{} requests: {} tokens in, {} out\n\n", flags.load.num_prompts, flags.load.input_len,
             flags.load.output_len);
  fmt::print("{:>8}{:>14}{:>14}{:>10}{:>9}{:>13}{:>13}\n", "at once", "output tok/s", "total tok/s",
             "seconds", "ratio", "TTFT p50 ms", "TPOT p50 ms");
  for (const LoadResult& result : results) {
    fmt::print("{:>8}{:>14.1f}{:>14.1f}{:>10.2f}{:>8.2f}x{:>13.1f}{:>13.2f}\n",
               result.shape.concurrency, result.output_tokens_per_s(), result.total_tokens_per_s(),
               result.elapsed_s, result.output_tokens_per_s() / results[0].output_tokens_per_s(),
               statistics(result.ttft_s).p50 * 1e3, statistics(result.tpot_s).p50 * 1e3);
  }
  return {};
}

std::shared_ptr<BenchFlags> add_load_flags(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  const std::string load = "Load";
  add_count(app, "--input-len", flags->load.input_len, "Prompt tokens of a request", 1, 1 << 24)
      ->group(load);
  add_count(app, "--output-len", flags->load.output_len, "Output tokens of a request", 1, 1 << 24)
      ->group(load);
  add_count(
      app, "--max-geometric-len", flags->load.max_geometric_len,
      "Draw output lengths from a geometric distribution with mean --output-len and this maximum",
      1, 1 << 24)
      ->group(load);
  add_count(app, "--num-prompts", flags->load.num_prompts, "Requests", 1, 1 << 24)->group(load);
  app.add_flag("--json", flags->json, "Print one JSON object");
  add_engine_flags(app, flags->engine);
  return flags;
}

}  // namespace

Command add_bench_latency(CLI::App& bench) {
  set_help(bench, {{{"quire bench latency", "the bundled model"},
                    {"quire bench latency MODEL --input-len 512 --threads 4",
                     "another model, longer prompts, four threads"}}});
  auto flags = add_load_flags(bench);
  return [flags] { return run_latency(*flags); };
}

Command add_bench_throughput(CLI::App& bench) {
  set_help(bench,
           {{{"quire bench throughput --concurrency 1,4,16", "the bundled model, 1 to 16 at once"},
             {"quire bench throughput MODEL --compare-batching",
              "static, dynamic and continuous batching"}}});
  auto flags = add_load_flags(bench);
  comma_list(
      bench.add_option("--concurrency", flags->concurrency,
                       "Requests in flight; several values, as in 1,16, run one after the other "
                       "(default: --max-num-seqs)"))
      ->type_name("N,...")
      ->check(whole_number(1, 4096))
      ->group("Load");
  const std::string batching = "Comparison of batching (all requests at once)";
  bench
      .add_flag("--compare-batching", flags->compare_batching,
                "Run the same load with static, dynamic and continuous batching")
      ->group(batching);
  comma_list(bench.add_option(
                 "--batch-sizes", flags->batch_sizes,
                 "Slots of the batch; several values, as in 1,2,4,8, run one after the other"))
      ->type_name("N,...")
      ->check(whole_number(1, 4096))
      ->group(batching);
  bench
      .add_option("--timeline", flags->timeline,
                  "Draw which sequence had which slot at each step into this HTML file")
      ->type_name("FILE")
      ->group(batching);
  return [flags] { return run_throughput(*flags); };
}

}  // namespace quire
