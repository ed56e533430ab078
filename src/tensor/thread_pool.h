// Threads for parallel regions inside one step. A region has as many shares as the pool has
// threads. The caller and its helpers compute them one after the other, so that nobody waits for a
// thread that has no CPU: where others have the CPUs, or a cgroup's quota is used up, the caller
// does it all. Helpers spin for a short while after a region, then sleep, so that an idle engine
// uses no CPU and a running one pays well under a microsecond for a fork and join.
//
// Passed by reference, never global. One region at a time: run() may be called from one thread
// only, and not from inside a region.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace quire {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 4096;
  // `num_threads` counts the caller. Helpers are started for no more CPUs than the calling thread
  // is granted now; shares beyond that are done one after the other.
  // Throws std::system_error or std::bad_alloc where the system gives no thread; then none is left.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }  // shares of a region
  int num_helpers() const;                          // threads besides the caller
  // Regions begun so far: a sign of life. Any thread.
  std::uint64_t num_regions() const { return num_regions_.load(std::memory_order_relaxed); }

  // The time of the threads that regions used since timing was switched on.
  struct RegionTimes {
    std::int64_t helped_ns = 0;  // of all helpers, inside regions
    std::int64_t waited_ns = 0;  // of the caller, for helpers that had not finished
  };
  // On the caller's thread, outside of regions. Off at first, and then nothing is measured.
  void set_timing(bool on);
  RegionTimes region_times() const;

  // Calls fn(worker) once for each worker in [0, num_threads) and returns when all have returned.
  // One thread may be several workers, one after the other: none may wait for another.
  template <typename F>
  void run(F&& fn) {
    count_region();
    using Callable = std::remove_reference_t<F>;
    auto call = [](void* arg, int worker) { (*static_cast<Callable*>(arg))(worker); };
    run_erased(call, const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // Splits [0, count) into chunks of `grain` (the last may be shorter), handed to idle workers in
  // order, and calls fn(begin, end, worker) for each. Which worker gets a chunk varies from run to
  // run: results must not depend on it.
  template <typename F>
  void parallel_for(std::int64_t count, std::int64_t grain, F&& fn);

  // The same with chunks that shrink, so that few are begun and yet workers of different speeds end
  // together: each is one worker's share of what nobody has begun yet (Polychronopoulos and Kuck,
  // "Guided self-scheduling", 1987), a multiple of `grain` and at most `largest`.
  template <typename F>
  void parallel_for_guided(std::int64_t count, std::int64_t grain, std::int64_t largest, F&& fn);

 private:
  using Erased = void (*)(void*, int);
  void run_erased(Erased fn, void* arg);

  // Only the caller's thread writes it.
  void count_region() { num_regions_.store(num_regions() + 1, std::memory_order_relaxed); }

  void end_helpers();

  struct State;
  std::atomic<std::uint64_t> num_regions_{0};
  int num_threads_;
  std::unique_ptr<State> state_;
};

// Touches every page of memory that was never written, so that later uses find it there.
void prefault(std::span<std::byte> memory, ThreadPool& pool);

// One thread for each physical core that the affinity mask names, and no more than the cgroup's CPU
// quota (rounded up): what two hyperthreads of a core share, the arithmetic, is what kernels need.
int default_num_threads();

template <typename F>
void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, F&& fn) {
  if (num_threads_ == 1 || count <= grain) {
    count_region();
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      fn(begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  alignas(64) std::atomic<std::int64_t> next{0};
  run([&](int worker) {
    while (true) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      fn(begin, std::min(begin + grain, count), worker);
    }
  });
}

template <typename F>
void ThreadPool::parallel_for_guided(std::int64_t count, std::int64_t grain, std::int64_t largest,
                                     F&& fn) {
  alignas(64) std::atomic<std::int64_t> next{0};
  run([&](int worker) {
    std::int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < count) {
      const std::int64_t share = (count - begin) / num_threads_ / grain * grain;
      const std::int64_t end = std::min(begin + std::clamp(share, grain, largest), count);
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      fn(begin, end, worker);
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

}  // namespace quire
