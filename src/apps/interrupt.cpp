#include "apps/interrupt.h"

#include <csignal>
#include <ctime>
#include <pthread.h>
#include <unistd.h>
#include <utility>

#include "base/status.h"

namespace quire {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

InterruptWatcher::InterruptWatcher() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

InterruptWatcher::~InterruptWatcher() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void InterruptWatcher::watch(std::function<void()> on_interrupt) {
  on_interrupt_ = std::move(on_interrupt);
  thread_ = std::thread([this] { run(); });
}

void InterruptWatcher::run() {
  const sigset_t signals = watched_signals();
  const timespec poll = {.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!stopping_) {
    if (sigtimedwait(&signals, nullptr, &poll) < 0) continue;
    if (interrupted_.exchange(true)) _exit(exit_code(StatusCode::kCancelled));
    on_interrupt_();
  }
}

}  // namespace quire
