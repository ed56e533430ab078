// Threads on which constraints of requests are compiled, so that a grammar that takes long holds up
// neither the workers, who read everybody's requests, nor the engine.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>

#include "base/status.h"
#include "serve/models/deferred_calls.h"

namespace quire {

class Preparations {
 public:
  // Two, so that one constraint at its limit of time does not hold up all others.
  static constexpr std::size_t kThreads = 2;
  // Requests that wait for their constraint; more are refused.
  static constexpr std::size_t kMaxWaiting = 256;

  // Runs `call`, those of one thread in their order. kResourceExhausted where kMaxWaiting wait,
  // kUnavailable where the system has no thread. Any thread.
  Status post(std::function<void()> call);
  // Drops what waits and joins the threads.
  void stop();

 private:
  std::array<DeferredCalls, kThreads> threads_;
  std::array<std::atomic<std::size_t>, kThreads> num_waiting_{};  // or run
};

}  // namespace quire
