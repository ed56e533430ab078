// Whether a server accepts requests, and how many are on their way in all its models.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"

namespace quire {

// Any thread.
class Drain {
 public:
  // No more requests are accepted; those in flight continue.
  void begin() { draining_ = true; }
  bool begun() const { return draining_; }
  std::int64_t num_in_flight() const { return num_in_flight_; }

  // kUnavailable once it has begun.
  Status check_open() const;
  // A request comes in; it has its whole answer, or was refused.
  void entered() { ++num_in_flight_; }
  void left() { --num_in_flight_; }

 private:
  std::atomic<bool> draining_ = false;
  std::atomic<std::int64_t> num_in_flight_ = 0;
};

}  // namespace quire
