// Progress of long work on stderr: a bar that redraws itself on a terminal, a plain line now and
// then in a log.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace quire {

class ProgressBar {
 public:
  ProgressBar(std::string label, std::string unit);
  ~ProgressBar() { clear(); }  // so that what comes next, an error too, has its own line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // At most ten redraws a second on a terminal, one line in five seconds elsewhere. A `total` of 0
  // means unknown.
  void update(double done, double total, std::string_view note);
  // The last state, however recent the one before; ends the bar's line.
  void finish(double done, double total, std::string_view note);
  // Takes the bar off the terminal.
  void clear();

 private:
  void draw(double done, double total, std::string_view note);

  std::string label_;
  std::string unit_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace quire
