// From one device to another in the middle of a step, by way of the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/device.h"

namespace quire {

class Crossing {
 public:
  // For at most so many numbers a step.
  explicit Crossing(std::int64_t max_numbers);
  static std::uint64_t bytes(std::int64_t max_numbers) {
    return static_cast<std::uint64_t>(max_numbers) * sizeof(float);
  }

  // What one device has at `from` will be what the other has at `to`.
  void add(const float* from, std::int64_t count, float* to);

  // Waits for the first device; then ops of the second one find what add() was told of. The second
  // one is to be synchronized before the next step.
  Status cross(OpStream& from, OpStream& to);

 private:
  struct Part {
    const float* from = nullptr;
    std::size_t count = 0;
    float* to = nullptr;
  };

  std::vector<float> numbers_;
  std::vector<Part> parts_;
};

}  // namespace quire
