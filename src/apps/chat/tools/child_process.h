// A program that a chat runs, with pipes to its standard streams and in a process group of its own:
// Ctrl-C reaches it only as the chat passes it on, and what it has started ends with it.
//
// By posix_spawn(): a fork of a process that has mapped a model's weights would copy its page
// tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/status.h"

namespace quire {

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // What wait() has waited for.
  enum class Event : std::uint8_t {
    kOutput,    // something was appended to output()
    kEnded,     // the program has ended, and all that it wrote is there
    kTimedOut,  // the deadline
    kStopped,   // by the token
  };

  // Of what it writes to its standard error, the last bytes are kept.
  static constexpr std::size_t kMaxErrorBytes = 4096;

  // `command`: a program, looked up in PATH unless it has a slash, and its arguments. kNotFound
  // where there is no such program, kUnavailable where the system starts none.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& command);
  // Ends what still runs: closes its input and waits a moment, then SIGTERM, then SIGKILL to its
  // group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // For its standard input, which wait() moves. What it does not read is lost when it ends.
  void write(std::string_view bytes) { input_ += bytes; }
  // Nothing follows.
  void end_input() { input_ends_ = true; }

  // Moves bytes until there is one of the events.
  Event wait(Clock::time_point deadline, const std::stop_token& stop);
  // Ends it at once: SIGTERM, then SIGKILL.
  void kill();

  // What it has written and nobody has read.
  std::string& output() { return output_; }
  // The end of what it wrote to its standard error.
  std::string_view errors() const { return errors_; }
  bool succeeded() const { return status_ && *status_ == 0; }
  // How it ended: "exit status 3", "signal 9 (Killed)"; "still running".
  std::string ending() const;

 private:
  ChildProcess() = default;

  void write_input();
  bool read_output();
  void read_errors();
  bool reap();
  bool ends_within(std::chrono::milliseconds time);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string input_;
  bool input_ends_ = false;
  std::string output_;
  std::string errors_;
  std::optional<int> status_;  // as waitpid() has it
};

}  // namespace quire
