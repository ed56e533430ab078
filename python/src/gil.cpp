#include "gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace quire::python {
namespace {

// Of the process, which has one interpreter with this module (quire/_interpreter.py).
struct Calls {
  std::atomic<int> num_inside = 0;
  std::atomic<bool> end = false;
};
Calls& calls() {
  static Calls all;
  return all;
}

}  // namespace

WithoutGil::WithoutGil() {
  if (calls().end) return;
  ++calls().num_inside;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  if (state_ == nullptr) return;
  PyEval_RestoreThread(state_);
  --calls().num_inside;
}

CallsPython::CallsPython() { ++calls().num_inside; }
CallsPython::~CallsPython() { --calls().num_inside; }

bool calls_end() { return calls().end; }

void end_calls() {
  constexpr std::chrono::seconds kMost(10);
  constexpr std::chrono::milliseconds kPause(1);
  calls().end = true;
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  while (calls().num_inside > 0 && std::chrono::steady_clock::now() < deadline) {
    PyThreadState* const state = PyEval_SaveThread();
    std::this_thread::sleep_for(kPause);
    PyEval_RestoreThread(state);
  }
}

void forget_calls() { calls().num_inside = 0; }

}  // namespace quire::python
