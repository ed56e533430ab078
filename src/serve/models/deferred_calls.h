// A thread for what others may not do where they are: the engine's output thread submits nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace quire {

class DeferredCalls {
 public:
  using Clock = std::chrono::steady_clock;

  DeferredCalls() = default;
  ~DeferredCalls() { stop(); }
  DeferredCalls(const DeferredCalls&) = delete;
  DeferredCalls& operator=(const DeferredCalls&) = delete;

  // Starts the thread unless it runs already. kUnavailable where the system has none. Any thread.
  Status start();
  // Runs `call` on the thread, not before `due`; calls that are due in their order. After stop(),
  // or where the thread never started, it is dropped. Any thread.
  void post(std::function<void()> call, Clock::time_point due = {});
  // Drops what waits and joins the thread.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<Clock::time_point, std::function<void()>> calls_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
