// Ctrl-C, SIGTERM and, unless it is ignored already (nohup), SIGHUP as an ordinary call on a thread
// of its own, so that no code runs in a signal handler. Create it before any other thread: it
// blocks the signals for those that follow.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "base/status.h"

namespace quire {

class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

  // Starts watching: the first signal calls `on_interrupt` once; a second one, SIGHUP aside, ends
  // the process. kUnavailable where the system has no thread for it.
  Status watch(std::function<void()> on_interrupt);
  bool interrupted() const { return interrupted_; }

 private:
  void run();

  sigset_t signals_;
  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
