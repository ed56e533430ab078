#include "apps/progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {

using std::chrono::steady_clock;

ProgressBar::ProgressBar(std::string label, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      last_(steady_clock::now()) {}

void ProgressBar::update(double done, double total, std::string_view note) {
  const auto now = steady_clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5);
  if (now - last_ < interval) return;
  last_ = now;
  draw(done, total, note);
}

void ProgressBar::finish(double done, double total, std::string_view note) {
  draw(done, total, note);
  if (terminal_) fmt::print(stderr, "\n");
  drawn_ = false;
}

void ProgressBar::clear() {
  if (terminal_ && drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

void ProgressBar::draw(double done, double total, std::string_view note) {
  const std::string count = total > 0 ? fmt::format("{:.0f}/{:.0f} {}", done, total, unit_)
                                      : fmt::format("{:.0f} {}", done, unit_);
  if (!terminal_) {
    fmt::print(stderr, "{}: {}{}{}\n", label_, count, note.empty() ? "" : ", ", note);
    return;
  }
  constexpr int kWidth = 30;
  const int filled = total > 0 ? static_cast<int>(std::clamp(done / total, 0.0, 1.0) * kWidth) : 0;
  fmt::print(stderr, "\r\x1b[K{} [{}{}] {} {}", label_, std::string(filled, '='),
             std::string(kWidth - filled, ' '), count, note);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace quire
