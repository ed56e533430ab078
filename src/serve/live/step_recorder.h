// The engine's last steps, kept only while somebody looks. Written by the engine's thread, which
// must not wait: while nobody looks a step costs one atomic load, otherwise a copy of its rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/api.h"

namespace quire {

class StepRecorder {
 public:
  // What is kept until it is read; of more, the oldest is dropped.
  static constexpr std::size_t kMaxSteps = 512;
  static constexpr std::size_t kMaxRows = 65'536;  // of all steps kept, the newest excepted

  struct Step {
    StepId step_id = 0;
    Instant start{};
    Instant end{};
    std::vector<StepShare> shares;
  };
  struct Taken {
    std::deque<Step> steps;        // in order
    std::int64_t num_dropped = 0;  // given up before these
  };

  // An engine's observer.
  void record(const StepRecord& step);

  // Starts or ends keeping; what was kept is gone. Any thread.
  void watch(bool on);
  // Moves out what was kept since the last time. Any thread.
  Taken take();

 private:
  std::atomic<bool> watched_ = false;
  std::mutex mutex_;
  Taken kept_;
  std::size_t num_rows_ = 0;
};

}  // namespace quire
