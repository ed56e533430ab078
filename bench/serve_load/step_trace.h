// When each token of each request left the executor: what the time of its arrival at a client is
// compared with. A request is known by the first two ids of its prompt, which the client chose.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "exec/executor.h"

namespace quire::load {

class StepTrace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Numbers up to kMaxKey, as the two ids that stand for them.
  static constexpr std::int32_t kBase = 200;
  static constexpr std::int32_t kFirstId = 4;  // ids below are special in many vocabularies
  static constexpr std::int32_t kMaxKey = kBase * kBase - 1;
  static std::vector<std::int32_t> prompt_of(std::int32_t key, std::size_t length);

  // An executor that does what `inner` does, and notes it here.
  std::unique_ptr<Executor> watch(std::unique_ptr<Executor> inner);

  // The times of the tokens of the last request with this key.
  std::vector<TimePoint> tokens_of(std::int32_t key) const;
  std::size_t num_steps() const;

 private:
  class Watcher;
  void record(const SchedulerOutput& plan, TimePoint end);

  mutable std::mutex mutex_;
  std::size_t num_steps_ = 0;
  std::unordered_map<RequestId, std::int32_t> keys_;
  std::unordered_map<std::int32_t, std::vector<TimePoint>> tokens_;
};

}  // namespace quire::load
