#include "tensor/thread_pool.h"

#include <chrono>
#include <csignal>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <climits>

#include "base/clock.h"
#include "tensor/cpu_count.h"

namespace quire {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

// Long enough to bridge the serial code between two regions of a step, short enough that an idle
// engine costs nothing. A caller that waits for stragglers gives way to them sooner.
constexpr std::chrono::microseconds kWorkerSpin{50};
constexpr std::chrono::microseconds kCallerSpin{200};

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

// Sleeps while `word` is `value`; may wake early.
void futex_wait(Word& word, std::uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr,
          nullptr, 0);
}

void futex_wake_all(Word& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

// True once `done()` is; false when `budget` has passed.
template <typename Done>
bool spin_until(Done done, std::chrono::microseconds budget) {
  if (done()) return true;
  if (budget.count() == 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + budget;
  while (true) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause_cpu();
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace

// A region is published by a new `epoch` and over when `pending` is zero. Who is about to sleep
// says so first and then looks again, and who publishes looks for sleepers afterwards: with
// sequentially consistent order on both sides one of them sees the other, so no wake-up is lost.
struct ThreadPool::State {
  alignas(64) Word epoch{0};
  Erased fn = nullptr;  // of the current region; nullptr asks the workers to end
  void* arg = nullptr;
  bool timing = false;          // of the current region
  alignas(64) Word pending{0};  // workers that have not finished the current region
  std::atomic<std::int64_t> helped_ns{0};
  alignas(64) std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::chrono::microseconds worker_spin{0};
  std::chrono::microseconds caller_spin{0};
  std::int64_t waited_ns = 0;  // the caller's
  std::vector<std::thread> threads;

  void publish(Erased new_fn, void* new_arg) {
    fn = new_fn;
    arg = new_arg;
    pending.store(static_cast<std::uint32_t>(threads.size()), std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_workers.load(std::memory_order_seq_cst) > 0) futex_wake_all(epoch);
  }

  void join() {
    const auto done = [this] { return pending.load(std::memory_order_acquire) == 0; };
    if (spin_until(done, caller_spin)) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    for (std::uint32_t left = pending.load(std::memory_order_seq_cst); left != 0;
         left = pending.load(std::memory_order_seq_cst)) {
      futex_wait(pending, left);
    }
    caller_sleeps.store(false, std::memory_order_relaxed);
  }

  void wait_for_region(std::uint32_t seen) {
    const auto ready = [this, seen] { return epoch.load(std::memory_order_acquire) != seen; };
    if (spin_until(ready, worker_spin)) return;
    sleeping_workers.fetch_add(1, std::memory_order_seq_cst);
    while (epoch.load(std::memory_order_seq_cst) == seen) futex_wait(epoch, seen);
    sleeping_workers.fetch_sub(1, std::memory_order_relaxed);
  }

  void run_region(int worker) {
    if (!timing) return fn(arg, worker);
    const std::int64_t start = steady_now_ns();
    fn(arg, worker);
    helped_ns.fetch_add(steady_now_ns() - start, std::memory_order_relaxed);
  }

  void work(int worker) {
    sigset_t all;  // signals are for the threads that the program starts itself
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    for (std::uint32_t seen = 0;; ++seen) {
      wait_for_region(seen);
      if (fn == nullptr) return;
      run_region(worker);
      if (pending.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
          caller_sleeps.load(std::memory_order_seq_cst)) {
        futex_wake_all(pending);
      }
    }
  }
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(std::max(num_threads, 1)), state_(std::make_unique<State>()) {
  // Where threads outnumber CPUs, a spinning one keeps another from its work.
  if (affinity_cpu_count() >= num_threads_) {
    state_->worker_spin = kWorkerSpin;
    state_->caller_spin = kCallerSpin;
  }
  state_->threads.reserve(static_cast<std::size_t>(num_threads_ - 1));
  for (int worker = 1; worker < num_threads_; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->publish(nullptr, nullptr);
  for (std::thread& thread : state_->threads) thread.join();
}

void ThreadPool::run_erased(Erased fn, void* arg) {
  if (num_threads_ == 1) {
    fn(arg, 0);
    return;
  }
  state_->publish(fn, arg);
  fn(arg, 0);
  if (!state_->timing) return state_->join();
  const std::int64_t start = steady_now_ns();
  state_->join();
  state_->waited_ns += steady_now_ns() - start;
}

void ThreadPool::set_timing(bool on) { state_->timing = on; }

ThreadPool::RegionTimes ThreadPool::region_times() const {
  return {.helped_ns = state_->helped_ns.load(std::memory_order_relaxed),
          .waited_ns = state_->waited_ns};
}

void prefault(std::span<std::byte> memory, ThreadPool& pool) {
  constexpr std::int64_t kPage = 4096;
  constexpr std::int64_t kPagesPerChunk = 1024;
  const auto bytes = static_cast<std::int64_t>(memory.size());
  const std::int64_t pages = (bytes + kPage - 1) / kPage;
  pool.parallel_for(pages, kPagesPerChunk, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t page = begin; page < end; ++page) {
      // Volatile, for the value does not change.
      auto* const first = reinterpret_cast<volatile char*>(memory.data() + page * kPage);
      *first = *first;
    }
  });
}

}  // namespace quire
