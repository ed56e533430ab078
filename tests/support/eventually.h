// Waiting for what another thread does.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace quire::test {

// Whether `holds` comes true before a time that only what hangs takes.
inline bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace quire::test
