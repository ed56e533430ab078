// Waiting that costs a CPU: right where what is waited for comes within microseconds, which is less
// than the system takes to wake a thread.
#pragma once

#include <chrono>
#include <sched.h>

namespace quire {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

// True once `done()` is; false when `budget` has passed. Who spins for longer than 10 us gives way
// between two looks: the thread that it waits for may be waiting for this very CPU.
template <typename Done>
bool spin_until(Done done, std::chrono::microseconds budget) {
  constexpr std::chrono::microseconds kBusySpin{10};
  if (done()) return true;
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause_cpu();
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    if (spent >= budget) return false;
    if (spent >= kBusySpin) sched_yield();
  }
}

}  // namespace quire
