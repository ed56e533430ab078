#include "apps/chat/tools/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

// How often it is looked whether a program has ended, or is to be stopped.
constexpr milliseconds kTick{10};
// What a program gets to end by itself, and again after SIGTERM.
constexpr milliseconds kGrace{500};
constexpr std::size_t kChunkBytes = 65536;

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

// A pipe of which the program gets one end, as its descriptor `target`.
struct ChildPipe {
  int mine = -1;
  int its = -1;

  ChildPipe() = default;
  ChildPipe(const ChildPipe&) = delete;
  ChildPipe& operator=(const ChildPipe&) = delete;
  ~ChildPipe() {
    close_end(mine);
    close_end(its);
  }

  // False with errno.
  bool open(int target, posix_spawn_file_actions_t* actions) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    const bool reads = target == STDIN_FILENO;
    its = reads ? ends[0] : ends[1];
    mine = reads ? ends[1] : ends[0];
    return ::fcntl(mine, F_SETFL, O_NONBLOCK) == 0 &&
           ::posix_spawn_file_actions_adddup2(actions, its, target) == 0;
  }

  int take() { return std::exchange(mine, -1); }
};

struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // The chat blocks and ignores signals; who inherited that could not be stopped by them.
    sigset_t none;
    sigemptyset(&none);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT}) {
      sigaddset(&defaults, number);
    }
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

Status spawn_error(const std::string& program, int error) {
  const std::string text =
      fmt::format("cannot run {}: {}", printable(program), std::strerror(error));
  const bool missing = error == ENOENT || error == EACCES || error == ENOEXEC;
  return missing ? Status::not_found(text, "name a program that this machine has")
                 : Status::unavailable(text);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command) {
  SpawnSettings settings;
  std::array<ChildPipe, 3> pipes;
  for (int i = 0; i < 3; ++i) {
    if (!pipes[static_cast<std::size_t>(i)].open(i, &settings.actions)) {
      return spawn_error(command[0], errno);
    }
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  const int error = ::posix_spawnp(&child->pid_, command[0].c_str(), &settings.actions,
                                   &settings.attributes, arguments.data(), environ);
  if (error != 0) {
    child->pid_ = -1;
    return spawn_error(command[0], error);
  }
  child->in_ = pipes[0].take();
  child->out_ = pipes[1].take();
  child->err_ = pipes[2].take();
  return child;
}

ChildProcess::~ChildProcess() {
  close_end(in_);
  if (pid_ > 0 && !ends_within(kGrace)) kill();
  close_end(out_);
  close_end(err_);
}

bool ChildProcess::reap() {
  if (status_ || pid_ <= 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

bool ChildProcess::ends_within(milliseconds time) {
  const auto end = Clock::now() + time;
  while (!reap()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kTick);
  }
  return true;
}

void ChildProcess::kill() {
  if (pid_ <= 0) return;
  // What it has started may outlive it and keep its pipes open.
  ::kill(-pid_, SIGTERM);
  if (!ends_within(kGrace)) {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    if (::waitpid(pid_, &status, 0) == pid_) status_ = status;
  } else {
    ::kill(-pid_, SIGKILL);
  }
}

void ChildProcess::write_input() {
  if (!input_.empty()) {
    const ssize_t count = ::write(in_, input_.data(), input_.size());
    if (count > 0) input_.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EAGAIN && errno != EINTR) {  // it reads no more
      input_.clear();
      close_end(in_);
    }
  }
  if (input_.empty() && input_ends_) close_end(in_);
}

bool ChildProcess::read_output() {
  std::array<char, kChunkBytes> chunk;
  const ssize_t count = ::read(out_, chunk.data(), chunk.size());
  if (count > 0) output_.append(chunk.data(), static_cast<std::size_t>(count));
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) close_end(out_);
  return count > 0;
}

void ChildProcess::read_errors() {
  std::array<char, kMaxErrorBytes> chunk;
  const ssize_t count = ::read(err_, chunk.data(), chunk.size());
  if (count > 0) errors_.append(chunk.data(), static_cast<std::size_t>(count));
  if (errors_.size() > kMaxErrorBytes) errors_.erase(0, errors_.size() - kMaxErrorBytes);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) close_end(err_);
}

ChildProcess::Event ChildProcess::wait(Clock::time_point deadline, const std::stop_token& stop) {
  while (true) {
    const bool ended = reap();
    const bool writes = in_ >= 0 && (!input_.empty() || input_ends_);
    // poll() passes over descriptors below 0.
    std::array<pollfd, 3> ends = {pollfd{writes ? in_ : -1, POLLOUT, 0}, pollfd{out_, POLLIN, 0},
                                  pollfd{err_, POLLIN, 0}};
    const int ready = ::poll(ends.data(), ends.size(), ended ? 0 : static_cast<int>(kTick.count()));
    if (ends[0].revents != 0) write_input();
    if (ends[2].revents != 0) read_errors();
    if (ends[1].revents != 0 && read_output()) return Event::kOutput;
    if (ended && ready <= 0) return Event::kEnded;
    if (stop.stop_requested()) return Event::kStopped;
    if (Clock::now() >= deadline) return Event::kTimedOut;
  }
}

std::string ChildProcess::ending() const {
  if (!status_) return "still running";
  if (WIFSIGNALED(*status_)) {
    return fmt::format("signal {} ({})", WTERMSIG(*status_), ::strsignal(WTERMSIG(*status_)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(*status_));
}

}  // namespace quire
