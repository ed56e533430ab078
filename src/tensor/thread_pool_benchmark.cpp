#include <benchmark/benchmark.h>

#include "tensor/thread_pool.h"

namespace quire {
namespace {

// An empty region while the workers spin.
void BM_ForkJoin(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  while (state.KeepRunning()) {
    pool.run([](int worker) { benchmark::DoNotOptimize(worker); });
  }
}
BENCHMARK(BM_ForkJoin)->DenseRange(1, default_num_threads())->UseRealTime();

void BM_ParallelFor(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  while (state.KeepRunning()) {
    pool.parallel_for(
        64, 1, [](std::int64_t begin, std::int64_t, int) { benchmark::DoNotOptimize(begin); });
  }
}
BENCHMARK(BM_ParallelFor)->DenseRange(1, default_num_threads())->UseRealTime();

// The same chunks, each reckoned as a share: what a loop of its own saves parallel_for.
void BM_ParallelForGuided(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  while (state.KeepRunning()) {
    pool.parallel_for_guided(
        64, 1, 1, [](std::int64_t begin, std::int64_t, int) { benchmark::DoNotOptimize(begin); });
  }
}
BENCHMARK(BM_ParallelForGuided)->DenseRange(1, default_num_threads())->UseRealTime();

}  // namespace
}  // namespace quire
