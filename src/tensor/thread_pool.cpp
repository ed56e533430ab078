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
#include "base/thread.h"
#include "tensor/cpu_count.h"
#include "tensor/spin.h"

namespace quire {
namespace {

using std::chrono::microseconds;
using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

// Long enough to bridge the serial code between two regions of a step, short enough that an idle
// engine costs nothing.
constexpr microseconds kHelperSpin{50};
constexpr microseconds kCallerSpin{200};
// Sleeps while `word` is `value`; may wake early.
void futex_wait(Word& word, std::uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr,
          nullptr, 0);
}

void futex_wake_all(Word& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

// Which region is current (the upper bits), and the first of its shares that nobody has begun.
class Ticket {
 public:
  static constexpr int kShareBits = 16;
  explicit Ticket(std::uint64_t bits) : bits_(bits) {}
  static Ticket first_of(std::uint64_t region) { return Ticket(region << kShareBits | 1); }
  std::uint64_t bits() const { return bits_; }
  std::uint64_t region() const { return bits_ >> kShareBits; }
  int share() const { return static_cast<int>(bits_ & ((1U << kShareBits) - 1)); }

 private:
  std::uint64_t bits_;
};

}  // namespace

// A region is published by a new ticket and over when `pending` is zero. Its first share is the
// caller's; every thread, the caller too, then begins the next one that is left, so that the caller
// waits for a helper only where that has begun something, never for one that has no CPU. Who has
// taken a share keeps the region from ending, and only then looks at what it is.
//
// Who is about to sleep says so first and then looks again, and who publishes looks for sleepers
// afterwards: with sequentially consistent order on both sides one of them sees the other, so no
// wake-up is lost.
struct ThreadPool::State {
  explicit State(int shares) : num_shares(shares) {}

  const int num_shares;
  Erased fn = nullptr;  // of the current region
  void* arg = nullptr;
  bool timing = false;
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  Word region_word{0};          // the region's lower bits, to sleep on
  alignas(64) Word pending{0};  // shares of the region, without the first, that are not done
  std::atomic<std::int64_t> helped_ns{0};
  alignas(64) std::atomic<int> sleeping_helpers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stopping{false};
  std::int64_t waited_ns = 0;  // the caller's
  std::vector<std::thread> helpers;

  void publish() {
    pending.store(static_cast<std::uint32_t>(num_shares - 1), std::memory_order_relaxed);
    const std::uint64_t region = Ticket(ticket.load(std::memory_order_relaxed)).region() + 1;
    ticket.store(Ticket::first_of(region).bits(), std::memory_order_seq_cst);
    region_word.store(static_cast<std::uint32_t>(region), std::memory_order_seq_cst);
    if (sleeping_helpers.load(std::memory_order_seq_cst) > 0) futex_wake_all(region_word);
  }

  // The next share of that region; -1 where none is left, or the region is over.
  int take(std::uint64_t region) {
    Ticket seen(ticket.load(std::memory_order_acquire));
    while (seen.region() == region && seen.share() < num_shares) {
      std::uint64_t bits = seen.bits();
      if (ticket.compare_exchange_weak(bits, bits + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return seen.share();
      }
      seen = Ticket(bits);
    }
    return -1;
  }

  void run_all() {
    fn(arg, 0);
    const std::uint64_t region = Ticket(ticket.load(std::memory_order_relaxed)).region();
    for (int share = take(region); share >= 0; share = take(region)) {
      fn(arg, share);
      pending.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void join() {
    const auto done = [this] { return pending.load(std::memory_order_acquire) == 0; };
    if (spin_until(done, kCallerSpin)) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    for (std::uint32_t left = pending.load(std::memory_order_seq_cst); left != 0;
         left = pending.load(std::memory_order_seq_cst)) {
      futex_wait(pending, left);
    }
    caller_sleeps.store(false, std::memory_order_relaxed);
  }

  std::uint64_t wait_for_region_after(std::uint64_t seen) {
    const auto current = [this](std::memory_order order) {
      return Ticket(ticket.load(order)).region();
    };
    const auto ready = [&] { return current(std::memory_order_acquire) != seen; };
    if (!spin_until(ready, kHelperSpin)) {
      const auto word = static_cast<std::uint32_t>(seen);
      sleeping_helpers.fetch_add(1, std::memory_order_seq_cst);
      while (region_word.load(std::memory_order_seq_cst) == word) futex_wait(region_word, word);
      sleeping_helpers.fetch_sub(1, std::memory_order_relaxed);
    }
    return current(std::memory_order_acquire);
  }

  void help(int share) {
    if (!timing) return fn(arg, share);
    const std::int64_t start = steady_now_ns();
    fn(arg, share);
    helped_ns.fetch_add(steady_now_ns() - start, std::memory_order_relaxed);
  }

  void work() {
    sigset_t all;  // signals are for the threads that the program starts itself
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::uint64_t region = 0;
    while (true) {
      region = wait_for_region_after(region);
      if (stopping.load(std::memory_order_relaxed)) return;
      for (int share = take(region); share >= 0; share = take(region)) {
        help(share);
        if (pending.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
            caller_sleeps.load(std::memory_order_seq_cst)) {
          futex_wake_all(pending);
        }
      }
    }
  }
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(std::clamp(num_threads, 1, kMaxThreads)),
      state_(std::make_unique<State>(num_threads_)) {
  static_assert(kMaxThreads < 1 << Ticket::kShareBits);
  const int num_helpers = std::min(num_threads_, granted_cpu_count()) - 1;
  state_->helpers.reserve(static_cast<std::size_t>(num_helpers));
  try {
    for (int i = 0; i < num_helpers; ++i) {
      state_->helpers.push_back(
          new_thread("quire-helper", [state = state_.get()] { state->work(); }));
    }
  } catch (...) {
    end_helpers();
    throw;
  }
}

ThreadPool::~ThreadPool() { end_helpers(); }

void ThreadPool::end_helpers() {
  state_->stopping.store(true, std::memory_order_relaxed);
  state_->publish();
  for (std::thread& helper : state_->helpers) helper.join();
}

void ThreadPool::run_erased(Erased fn, void* arg) {
  if (state_->helpers.empty()) {
    for (int share = 0; share < num_threads_; ++share) fn(arg, share);
    return;
  }
  state_->fn = fn;
  state_->arg = arg;
  state_->publish();
  state_->run_all();
  if (!state_->timing) return state_->join();
  const std::int64_t start = steady_now_ns();
  state_->join();
  state_->waited_ns += steady_now_ns() - start;
}

int ThreadPool::num_helpers() const { return static_cast<int>(state_->helpers.size()); }

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
