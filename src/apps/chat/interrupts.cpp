#include "apps/chat/interrupts.h"

#include <csignal>
#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"

namespace quire {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

sigset_t terminal_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTSTP);
  sigaddset(&signals, SIGCONT);
  sigaddset(&signals, SIGWINCH);
  return signals;
}

}  // namespace

Interrupts::Interrupts() : prompt_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const sigset_t others = terminal_signals();
  pthread_sigmask(SIG_BLOCK, &others, nullptr);
  thread_ = new_thread("quire-signals", [this] { run(); });
}

Interrupts::~Interrupts() {
  stopping_ = true;
  thread_.join();
  ::close(prompt_fd_);
}

void Interrupts::threads_started() {
  const sigset_t signals = terminal_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

std::stop_token Interrupts::begin_answer() {
  const std::lock_guard lock(mutex_);
  answer_ = std::stop_source();
  mode_ = Mode::kAnswer;
  return answer_.get_token();
}

void Interrupts::end_answer() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kBusy;
}

void Interrupts::begin_prompt() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kPrompt;
}

void Interrupts::end_prompt() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kBusy;
  std::uint64_t count = 0;
  (void)!::read(prompt_fd_, &count, sizeof(count));
}

void Interrupts::run() {
  const sigset_t signals = watched_signals();
  const timespec poll = {.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!stopping_) {
    const int signal = sigtimedwait(&signals, nullptr, &poll);
    if (signal > 0) handle(signal);
  }
}

void Interrupts::handle(int signal) {
  const std::lock_guard lock(mutex_);
  if (signal == SIGTERM) terminated_ = true;
  switch (mode_) {
    case Mode::kBusy:
      _exit(exit_code(StatusCode::kCancelled));
    case Mode::kPrompt: {
      const std::uint64_t one = 1;
      (void)!::write(prompt_fd_, &one, sizeof(one));
      return;
    }
    case Mode::kAnswer:
      mode_ = Mode::kBusy;
      // While it is locked: who ends the answer at this moment sees that it was to be stopped.
      answer_.request_stop();
      return;
  }
}

}  // namespace quire
