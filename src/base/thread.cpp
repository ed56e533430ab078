#include "base/thread.h"

#include <pthread.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"

namespace quire {

std::thread new_thread(const char* name, std::function<void()> run) {
  try {
    return std::thread([name, call = std::move(run)] {
      ::pthread_setname_np(::pthread_self(), name);
      call();
    });
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), fmt::format("cannot start the thread {}", name));
  }
}

Result<std::thread> start_thread(const char* name, std::function<void()> run) {
  return or_status([&]() -> Result<std::thread> { return new_thread(name, std::move(run)); });
}

}  // namespace quire
