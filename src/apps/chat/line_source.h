// Where a chat's lines come from, and how lines become messages.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

struct InputLine {
  enum class Kind { kLine, kEnd, kInterrupted };
  Kind kind = Kind::kLine;
  std::string text;    // without its newline
  bool typed = false;  // where interrupted: something stood on the line
};

class LineSource {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

  virtual ~LineSource() = default;

  // The next line, after showing `prompt` where someone is there to see it. kIoError where there is
  // no reading any more, kInvalidArgument for a line of more than kMaxLineBytes.
  virtual Result<InputLine> read(const std::string& prompt) = 0;

  // Keeps what was entered, its lines together, for the arrow keys to bring back; a source without
  // them forgets it. Such a text comes back from read() with its line breaks.
  virtual void remember(const std::string& /*text*/) {}
};

// Lines of standard input, without a prompt.
std::unique_ptr<LineSource> plain_lines();

// What the user has entered: one line, a line that goes on after each backslash at an end, or what
// stands between """ and """.
struct UserInput {
  InputLine::Kind kind = InputLine::Kind::kLine;
  std::string text;
  bool typed = false;   // where interrupted: something had been entered
  bool quoted = false;  // between """: never a command
};

// The source remembers it whole. Errors of the source, kInvalidArgument for a message of more than
// LineSource::kMaxLineBytes, one that the end of input cuts off, or bytes that are not UTF-8.
Result<UserInput> read_input(LineSource& source);

}  // namespace quire
