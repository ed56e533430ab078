#include "apps/interrupt.h"

#include <csignal>
#include <ctime>
#include <pthread.h>
#include <unistd.h>
#include <utility>

#include "base/exhaustion.h"
#include "base/thread.h"

namespace quire {
namespace {

// Who ignores hang-ups from the start (nohup) wants to outlive its terminal.
bool hang_up_ignored() {
  struct sigaction current {};
  sigaction(SIGHUP, nullptr, &current);
  return current.sa_handler == SIG_IGN;
}

sigset_t signals_to_watch() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!hang_up_ignored()) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

InterruptWatcher::InterruptWatcher() : signals_(signals_to_watch()) {
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

InterruptWatcher::~InterruptWatcher() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

Status InterruptWatcher::watch(std::function<void()> on_interrupt) {
  on_interrupt_ = std::move(on_interrupt);
  QUIRE_ASSIGN_OR_RETURN(thread_, start_thread("quire-signals", [this] { run(); }));
  return {};
}

void InterruptWatcher::run() {
  const timespec poll = {.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!stopping_) {
    const int signal = sigtimedwait(&signals_, nullptr, &poll);
    if (signal < 0) continue;
    if (!interrupted_.exchange(true)) {
      until_memory(on_interrupt_);
    } else if (signal !=
               SIGHUP) {  // a terminal that closes sends it twice, by the shell and itself
      _exit(exit_code(StatusCode::kCancelled));
    }
  }
}

}  // namespace quire
