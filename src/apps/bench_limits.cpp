// `quire bench limits`: what the machine can do at most, as the ceiling for everything else.
#include <memory>

#include <fmt/format.h>

#include "apps/commands.h"
#include "base/json.h"
#include "kernels/machine_limits.h"
#include "tensor/thread_pool.h"

namespace quire {
namespace {

struct LimitsFlags {
  int threads = 0;
  bool json = false;
};

void print_json(const MachineLimits& limits) {
  json::array rows;
  for (const ThreadLimits& row : limits.by_threads) {
    rows.push_back({{"threads", row.threads},
                    {"read_bytes_per_s",
                     {{"best", row.best_read_bandwidth}, {"median", row.median_read_bandwidth}}},
                    {"f32_flop_per_s", row.peak_f32_flops},
                    {"fork_join_s", row.fork_join_seconds},
                    {"wake_up_s", row.wake_up_seconds}});
  }
  const json::object report = {{"processor", limits.processor},
                               {"isa_level", isa_level_name(limits.level)},
                               {"by_threads", std::move(rows)}};
  fmt::print("{}\n", json::serialize(report));
}

void print_text(const MachineLimits& limits) {
  fmt::print("{}, level {}\n\n", limits.processor, isa_level_name(limits.level));
  fmt::print("{:>8}{:>14}{:>14}{:>16}{:>14}{:>14}\n", "threads", "read GB/s", "(median)",
             "F32 GFLOP/s", "fork-join us", "wake-up us");
  for (const ThreadLimits& row : limits.by_threads) {
    fmt::print("{:>8}{:>14.1f}{:>14.1f}{:>16.1f}{:>14.2f}{:>14.1f}\n", row.threads,
               row.best_read_bandwidth / 1e9, row.median_read_bandwidth / 1e9,
               row.peak_f32_flops / 1e9, row.fork_join_seconds * 1e6, row.wake_up_seconds * 1e6);
  }
}

Status run_limits(const LimitsFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(
      const MachineLimits limits,
      measure_machine_limits(flags.threads > 0 ? flags.threads : default_num_threads()));
  if (flags.json) {
    print_json(limits);
  } else {
    print_text(limits);
  }
  return {};
}

}  // namespace

Command add_bench_limits(CLI::App& bench) {
  auto flags = std::make_shared<LimitsFlags>();
  bench.add_option("--threads", flags->threads, "Threads at most (default: the CPUs granted)")
      ->check(CLI::Range(1, 1024));
  bench.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_limits(*flags); };
}

}  // namespace quire
