#include "base/thread.h"

#include <exception>
#include <pthread.h>
#include <utility>

#include <fmt/format.h>

namespace quire {

Result<std::thread> start_thread(const char* name, std::function<void()> run) {
  try {
    std::thread thread(std::move(run));
    ::pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::exception& error) {  // system_error or bad_alloc
    return Status::unavailable(
        fmt::format("cannot start the thread {}: {}", name, error.what()),
        "allow more threads (ulimit -u, the container's limit of pids, systemd's TasksMax) or "
        "memory");
  }
}

}  // namespace quire
