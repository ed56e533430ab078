#include "kernels/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cpuid.h>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "kernels/limit_table.h"
#include "tensor/buffer.h"
#include "tensor/thread_pool.h"

namespace quire {
namespace {

constexpr std::int64_t kReadFloats = 128 << 20;  // 512 MiB
constexpr std::int64_t kChunkFloats = 1 << 20;
constexpr int kReadPasses = 4;
constexpr int kPeakPasses = 3;
constexpr double kPeakSeconds = 0.02;
constexpr int kForks = 1000;
constexpr int kWakeUps = 50;
constexpr std::chrono::microseconds kUntilAsleep{500};  // longer than workers spin

template <typename F>
double seconds_of(F&& fn) {
  const SteadyClock clock;
  const Instant start = clock.now();
  fn();
  return to_seconds(clock.now() - start);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Keeps results of measured loops from being left out.
void consume(float value) { asm volatile("" : : "x"(value) : "memory"); }

void measure_reads(ThreadPool& pool, const LimitKernels& kernels, const float* data,
                   ThreadLimits& limits) {
  std::vector<double> rates;
  rates.reserve(kReadPasses);
  for (int pass = 0; pass < kReadPasses; ++pass) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(kReadFloats, kChunkFloats, [&](std::int64_t begin, std::int64_t end, int) {
        consume(kernels.read(data + begin, end - begin));
      });
    });
    rates.push_back(static_cast<double>(kReadFloats) * sizeof(float) / seconds);
  }
  limits.best_read_bandwidth = *std::max_element(rates.begin(), rates.end());
  limits.median_read_bandwidth = median(rates);
}

double measure_peak(ThreadPool& pool, const PeakKernel& kernel) {
  const auto run = [&](std::int64_t rounds) {
    return seconds_of([&] { pool.run([&](int) { consume(kernel.run(rounds)); }); });
  };
  std::int64_t rounds = 100;
  while (run(rounds) < kPeakSeconds / 2) rounds *= 2;
  double best = run(rounds);
  for (int pass = 1; pass < kPeakPasses; ++pass) best = std::min(best, run(rounds));
  return static_cast<double>(rounds) * static_cast<double>(kernel.operations_per_round) *
         pool.num_threads() / best;
}

void measure_peaks(ThreadPool& pool, const LimitKernels& kernels, ThreadLimits& limits) {
  for (int kind = 0; kind < kNumPeakKinds; ++kind) {
    if (kernels.peaks[kind].run == nullptr) continue;
    limits.peaks[kind] = measure_peak(pool, kernels.peaks[kind]);
  }
}

// All threads meet in each region: else the caller would be done before the others have come.
void measure_regions(ThreadPool& pool, ThreadLimits& limits) {
  const int num_met = pool.num_helpers() + 1;
  const auto meet = [&] {
    std::atomic<int> arrived = 0;
    pool.run([&](int) {
      arrived.fetch_add(1, std::memory_order_relaxed);
      while (arrived.load(std::memory_order_relaxed) < num_met) {
      }
    });
  };
  const auto empty_region = [&] { return seconds_of(meet); };
  std::vector<double> seconds;
  seconds.reserve(kForks);
  for (int i = 0; i < kForks; ++i) seconds.push_back(empty_region());
  limits.fork_join_seconds = median(seconds);
  seconds.clear();
  for (int i = 0; i < kWakeUps; ++i) {
    std::this_thread::sleep_for(kUntilAsleep);
    seconds.push_back(empty_region());
  }
  limits.wake_up_seconds = median(seconds);
}

}  // namespace

std::string processor_name() {
  unsigned int registers[12] = {};
  for (unsigned int i = 0; i < 3; ++i) {
    unsigned int* const r = registers + std::size_t{4} * i;
    if (__get_cpuid(0x80000002U + i, r, r + 1, r + 2, r + 3) == 0) return "unknown";
  }
  char text[sizeof(registers) + 1] = {};
  std::memcpy(text, registers, sizeof(registers));
  std::string name(text);
  const std::size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return name.substr(first, name.find_last_not_of(' ') - first + 1);
}

Result<MachineLimits> measure_machine_limits(int max_threads) {
  if (max_threads < 1) {
    return Status::invalid_argument(fmt::format("cannot measure with {} threads", max_threads),
                                    "use at least 1");
  }
  MachineLimits limits;
  limits.processor = processor_name();
  QUIRE_ASSIGN_OR_RETURN(limits.level, choose_level());
  const LimitKernels& kernels = limit_kernels(limits.level);
  QUIRE_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(kReadFloats * sizeof(float)));
  auto* const data = reinterpret_cast<float*>(buffer.data());
  {  // Memory that nobody wrote is one shared page of zeros.
    ThreadPool pool(max_threads);
    pool.parallel_for(kReadFloats, kChunkFloats, [&](std::int64_t begin, std::int64_t end, int) {
      std::fill(data + begin, data + end, 1.0F);
    });
  }
  for (int threads = 1;; threads = std::min(2 * threads, max_threads)) {
    ThreadPool pool(threads);
    ThreadLimits& entry = limits.by_threads.emplace_back();
    entry.threads = threads;
    measure_reads(pool, kernels, data, entry);
    measure_peaks(pool, kernels, entry);
    measure_regions(pool, entry);
    if (threads == max_threads) return limits;
  }
}

}  // namespace quire
