// Starting threads, where the system may refuse another one.
#pragma once

#include <functional>
#include <thread>

#include "base/status.h"

namespace quire {

// Runs `run` on a new thread, which the system's tools show as `name` (at most 15 bytes).
// kUnavailable where the system allows no more threads, or has no memory for one; then nothing
// runs.
Result<std::thread> start_thread(const char* name, std::function<void()> run);

// The same for constructors: throws std::system_error or std::bad_alloc, which or_status() (see
// base/exhaustion.h) makes the same error.
std::thread new_thread(const char* name, std::function<void()> run);

}  // namespace quire
