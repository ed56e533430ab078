// The GIL and the end of the interpreter. A thread that gave the GIL up and asks for it again when
// the interpreter is gone is ended by it, through frames of C++ that cannot be left so. So the end
// waits for those threads, and from then on none gives it up any more.
#pragma once

#include <nanobind/nanobind.h>

namespace quire::python {

// Gives up the GIL while it lives, but after end_calls().
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;  // null: it was kept
};

// While it lives C++ calls Python, which may let other threads run.
class CallsPython {
 public:
  CallsPython();
  ~CallsPython();
  CallsPython(const CallsPython&) = delete;
  CallsPython& operator=(const CallsPython&) = delete;
};

// Whether end_calls() was called: nobody should wait any more.
bool calls_end();

// Waits until no thread is within such a scope, some seconds at most. With the GIL, when the
// interpreter is about to end.
void end_calls();

// In a process that a fork made, where none of those threads is.
void forget_calls();

}  // namespace quire::python
