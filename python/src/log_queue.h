// The program's log records on their way to Python's `logging`. Threads of the engine put them here
// and never wait for an interpreter; one thread of Python takes them out.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"

namespace quire::python {

struct LogRecord {
  int level = 0;  // of Python's logging: 10 debug, 20 info, 30 warning, 40 error, 50 critical
  std::string message;
};

class LogQueue {
 public:
  // Older records are dropped beyond it, and a record says how many.
  static constexpr std::size_t kMaxRecords = 10'000;

  void put(LogRecord record);
  // Waits up to `timeout` for records, or until close(). Should not hold the GIL.
  std::vector<LogRecord> take(Duration timeout);
  // Whoever waits is let go, now and later.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LogRecord> records_;
  std::int64_t num_dropped_ = 0;
  bool closed_ = false;
};

// From now on base/log.h writes to the queue.
void log_to(std::shared_ptr<LogQueue> queue);

}  // namespace quire::python
