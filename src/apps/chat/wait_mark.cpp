#include "apps/chat/wait_mark.h"

#include <csignal>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

namespace quire {

WaitMark::WaitMark(bool color) : color_(color), thread_([this] { run(); }) {}

WaitMark::~WaitMark() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WaitMark::run() {
  // Ctrl-C and a new width are others' to hear of.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);

  constexpr std::chrono::milliseconds kSilence(300);
  constexpr std::chrono::milliseconds kTurn(120);
  constexpr std::string_view kSigns = "|/-\\";
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool drawn = false;
  for (std::size_t turn = 0;; ++turn) {
    if (changed_.wait_for(lock, drawn ? kTurn : kSilence, [this] { return ending_; })) break;
    const auto waited = std::chrono::steady_clock::now() - start;
    fmt::print("\r\x1b[K{}{} waiting for an answer, {} s{}", color_ ? "\x1b[2m" : "",
               kSigns[turn % kSigns.size()],
               std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
               color_ ? "\x1b[0m" : "");
    (void)std::fflush(stdout);
    drawn = true;
  }
  if (drawn) fmt::print("\r\x1b[K");
  (void)std::fflush(stdout);
}

}  // namespace quire
