// What the system does not give, memory or another thread, as errors: for the tops of threads, and
// for constructors, which can fail by an exception only.
#pragma once

#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "base/status.h"

namespace quire {

// kUnavailable.
Status out_of_memory();

// Of what std::thread throws, kUnavailable where the system allows no more threads; else kIoError.
Status status_of(const std::system_error& error);

// What `call` returns, a Status or a Result; that memory or a thread was refused is an error, too.
template <typename F>
auto or_status(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& error) {
    return status_of(error);
  }
}

// Calls `call` again and again while it lacks memory: for what has to be done nevertheless, as
// telling clients that it is over. It must be such that it can begin anew.
template <typename F>
void until_memory(F&& call) {
  constexpr std::chrono::milliseconds kPause(10);
  while (true) {
    try {
      call();
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace quire
