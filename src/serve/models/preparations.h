// Threads on which constraints of requests are compiled, so that a grammar that takes long delays
// neither the workers, who read everybody's requests, nor the engine, nor grammars that are short.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "serve/models/deferred_calls.h"

namespace quire {

class Preparations {
 public:
  // Requests that wait for their constraint, or have it compiled; more are refused.
  static constexpr std::size_t kMaxWaiting = 256;
  // A call that takes more of the processor's time is begun anew on one of kLongThreads. Two, so
  // that one constraint at its limit of time does not delay all others.
  static constexpr Duration kShort = std::chrono::milliseconds(30);
  static constexpr std::size_t kLongThreads = 2;
  // While the engine computes, a call rests whenever it has computed for kStint or longer, so many
  // times as long: it costs the engine little where they share a core, a twentieth, and half
  // of that once it is known to be long. What ends within kFree never rests.
  static constexpr Duration kFree = std::chrono::milliseconds(5);
  static constexpr Duration kStint = std::chrono::microseconds(500);
  static constexpr int kRest = 19;
  static constexpr int kLongRest = 39;
  static constexpr Duration kMostRest = std::chrono::milliseconds(200);  // stop() waits for it

  // To be called often by a call; rests. True: give up.
  using Pause = std::function<bool()>;
  // False: it gave up.
  using Call = std::function<bool(const Pause&)>;

  // `busy`: whether the engine computes for anybody. Any thread.
  explicit Preparations(std::function<bool()> busy);

  // Makes the call; once more where it gave up. kResourceExhausted where kMaxWaiting wait,
  // kUnavailable where the system has no thread. Any thread.
  Status post(Call call);
  // Drops what waits, makes what runs give up, and joins the threads.
  void stop();

 private:
  struct Waiting;
  struct LongThread {
    std::atomic<std::size_t> num_waiting = 0;  // or run
    DeferredCalls calls;
  };

  // Whether it ended.
  bool make(const Call& call, Duration longest, int rest) const;
  void post_long(std::shared_ptr<Waiting> waiting);

  const std::function<bool()> busy_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> num_waiting_ = 0;
  DeferredCalls short_;
  std::array<LongThread, kLongThreads> long_;
};

}  // namespace quire
