// What stands on the terminal while nothing has come of an answer yet: a sign that turns, and for
// how long. It goes when the object does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace quire {

class WaitMark {
 public:
  // Draws on standard output, which has to be a terminal, from a moment on: an answer that comes at
  // once is not announced. `color`: dim.
  explicit WaitMark(bool color);
  // Takes the mark off the terminal. Nothing else may be written there before.
  ~WaitMark();
  WaitMark(const WaitMark&) = delete;
  WaitMark& operator=(const WaitMark&) = delete;

 private:
  void run();

  const bool color_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace quire
