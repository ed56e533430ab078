// What one render may spend. Every statement, expression and loop turn costs a step; every byte
// that an operation reads or makes of strings and containers costs a byte; both only run down.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace quire::jinja {

class Budget {
 public:
  Budget(std::uint64_t steps, std::uint64_t bytes) : steps_(steps), bytes_(bytes) {}

  Status step(std::uint64_t count = 1) {
    if (count > steps_) {
      steps_ = 0;
      return Status::resource_exhausted("the template runs for too many steps");
    }
    steps_ -= count;
    return {};
  }
  Status bytes(std::uint64_t count) {
    if (count > bytes_) {
      bytes_ = 0;
      return Status::resource_exhausted("the template handles too much text");
    }
    bytes_ -= count;
    return {};
  }

 private:
  std::uint64_t steps_;
  std::uint64_t bytes_;
};

}  // namespace quire::jinja
