// The processor time of a thread, as opposed to the time that has passed.
#pragma once

#include <ctime>

#include "base/clock.h"

namespace quire {

// The calling thread's; zero where the system does not tell. Whatever kept it from running, other
// programs or a suspended machine, does not count.
inline Duration thread_cpu_time() {
  timespec time{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace quire
