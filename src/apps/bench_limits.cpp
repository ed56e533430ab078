// `quire bench limits`: what the machine can do at most, as the ceiling for everything else.
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "base/json.h"
#include "engine/compute_device.h"
#include "kernels/machine_limits.h"
#include "tensor/thread_pool.h"

namespace quire {
namespace {

struct LimitsFlags {
  std::string device = "cpu";
  int threads = 0;
  bool json = false;
};

struct PeakName {
  PeakKind kind;
  const char* key;    // in JSON
  const char* title;  // in the table
};
constexpr PeakName kPeakNames[] = {
    {PeakKind::kF32, "f32_flop_per_s", "F32 fma, GFLOP/s"},
    {PeakKind::kInt16Dot, "int16_dot_op_per_s", "int16 dot (vpmaddwd, vpaddd), GOP/s"},
    {PeakKind::kBf16Dot, "bf16_dot_flop_per_s", "BF16 dot (vdpbf16ps), GFLOP/s"},
    {PeakKind::kInt8Dot, "int8_dot_op_per_s", "int8 dot (vpdpbusd), GOP/s"},
    {PeakKind::kBf16Tile, "bf16_tile_flop_per_s", "BF16 tiles (tdpbf16ps), GFLOP/s"},
    {PeakKind::kInt8Tile, "int8_tile_op_per_s", "int8 tiles (tdpbssd), GOP/s"}};
static_assert(std::size(kPeakNames) == kNumPeakKinds);

const std::optional<double>& peak_of(const ThreadLimits& row, const PeakName& name) {
  return row.peaks[static_cast<int>(name.kind)];
}

// A rate that the level has no instruction for is null.
void print_limits_as_json(const MachineLimits& limits) {
  json::array rows;
  for (const ThreadLimits& row : limits.by_threads) {
    json::object entry = {
        {"threads", row.threads},
        {"read_bytes_per_s",
         {{"best", row.best_read_bandwidth}, {"median", row.median_read_bandwidth}}}};
    for (const PeakName& name : kPeakNames) {
      const std::optional<double>& peak = peak_of(row, name);
      entry[name.key] = peak ? json::value(*peak) : json::value(nullptr);
    }
    entry["fork_join_s"] = row.fork_join_seconds;
    entry["wake_up_s"] = row.wake_up_seconds;
    rows.push_back(std::move(entry));
  }
  const json::object report = {{"processor", limits.processor},
                               {"isa_level", isa_level_name(limits.level)},
                               {"by_threads", std::move(rows)}};
  fmt::print("{}\n", json::serialize(report));
}

// One column for each number of threads.
template <typename Cell>
void print_line(const MachineLimits& limits, const char* title, const Cell& cell) {
  fmt::print("{:<38}", title);
  for (const ThreadLimits& row : limits.by_threads) fmt::print("{:>10}", cell(row));
  fmt::print("\n");
}

void print_limits(const MachineLimits& limits) {
  fmt::print("{}, level {}\n\n", limits.processor, isa_level_name(limits.level));
  const auto rate = [](double per_second) { return fmt::format("{:.1f}", per_second / 1e9); };
  const auto time = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e6); };
  print_line(limits, "threads", [](const ThreadLimits& row) { return row.threads; });
  print_line(limits, "read, GB/s",
             [&](const ThreadLimits& row) { return rate(row.best_read_bandwidth); });
  print_line(limits, "read, GB/s, median of passes",
             [&](const ThreadLimits& row) { return rate(row.median_read_bandwidth); });
  for (const PeakName& name : kPeakNames) {
    print_line(limits, name.title, [&](const ThreadLimits& row) {
      const std::optional<double>& peak = peak_of(row, name);
      return peak ? rate(*peak) : std::string("absent");
    });
  }
  print_line(limits, "fork and join, us",
             [&](const ThreadLimits& row) { return time(row.fork_join_seconds); });
  print_line(limits, "wake-up, us",
             [&](const ThreadLimits& row) { return time(row.wake_up_seconds); });
  if (!peak_of(limits.by_threads.front(), kPeakNames[kNumPeakKinds - 1])) {
    fmt::print("\nabsent: level {} has no such instruction\n", isa_level_name(limits.level));
  }
}

void print_gpu_limits(const CudaDeviceInfo& gpu, const CudaLimits& limits, bool as_json) {
  if (as_json) {
    const json::object report = {
        {"device", gpu.name},
        {"multiprocessors", gpu.multiprocessors},
        {"read_bytes_per_s",
         {{"best", limits.best_read_bandwidth}, {"median", limits.median_read_bandwidth}}},
        {"copy_bytes_per_s", limits.copy_bandwidth},
        {"bf16_tensor_flop_per_s", limits.bf16_flop_per_s},
        {"launch_s", limits.launch_seconds}};
    fmt::print("{}\n", json::serialize(report));
    return;
  }
  const auto line = [](const char* title, double value) {
    fmt::print("{:<38}{:>10.1f}\n", title, value);
  };
  fmt::print("{}, {} multiprocessors\n\n", gpu.name, gpu.multiprocessors);
  line("read, GB/s", limits.best_read_bandwidth / 1e9);
  line("read, GB/s, median", limits.median_read_bandwidth / 1e9);
  line("copy, GB/s read and written", limits.copy_bandwidth / 1e9);
  line("BF16 tensor cores, TFLOP/s", limits.bf16_flop_per_s / 1e12);
  line("launch after launch, us", limits.launch_seconds * 1e6);
}

Status run_limits(const LimitsFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ComputeDevice device, choose_device(flags.device));
  if (device.gpu) {
    QUIRE_ASSIGN_OR_RETURN(const CudaLimits limits, measure_cuda_limits(*device.gpu));
    print_gpu_limits(*device.gpu, limits, flags.json);
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(
      const MachineLimits limits,
      measure_machine_limits(flags.threads > 0 ? flags.threads : default_num_threads()));
  if (flags.json) {
    print_limits_as_json(limits);
  } else {
    print_limits(limits);
  }
  return {};
}

}  // namespace

Command add_bench_limits(CLI::App& bench) {
  auto flags = std::make_shared<LimitsFlags>();
  set_help(bench, {{{"quire bench limits", "with all available CPUs"},
                    {"quire bench limits --device cuda --json", "of a GPU, for programs"}}});
  bench.add_option("--device", flags->device, "The processor, or a GPU")
      ->type_name("DEVICE")
      ->check(known_names("auto|cpu|cuda|cuda:N"))
      ->capture_default_str();
  bench
      .add_option("--threads", flags->threads,
                  "Maximum number of threads (default: the available CPUs)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  bench.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_limits(*flags); };
}

}  // namespace quire
