// A terminal as `quire top` uses it: keys one by one, a screen of its own that goes when it ends.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace quire {

class Screen {
 public:
  // kIoError where standard input or output is no terminal.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();  // the terminal is as it was before

  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Shows these lines, and nothing else. They must fit.
  Status show(std::span<const std::string> lines);

  enum class Wake { kQuit, kOther };
  // Waits for a key, a wake() or so long. kQuit: q, Ctrl-C, or the end of the input.
  Wake wait(int timeout_ms);
  void wake();  // any thread

 private:
  struct State;
  explicit Screen(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace quire
