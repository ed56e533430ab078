// Memory or a thread that the system refuses, as an error: for the tops of threads, and for
// constructors, which can only fail by an exception.
#pragma once

#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "base/status.h"

namespace quire {

// kUnavailable.
Status out_of_memory();

// For what std::thread throws: kUnavailable where the system allows no more threads; else kIoError.
Status status_of(const std::system_error& error);

// What `call` returns, a Status or a Result; an error, too, if memory or a thread was refused.
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

// Calls `call` again and again while it lacks memory: for what must be done in any case, such as
// telling clients of the end. `call` must be repeatable.
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
