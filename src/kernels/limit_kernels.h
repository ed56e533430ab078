// What an instruction-set level provides to measure the machine with (kernels/machine_limits.h).
#pragma once

#include <cstdint>

namespace quire {

struct LimitKernels {
  // The sum of `count` floats, a multiple of 64; as fast as memory delivers them.
  float (*read)(const float* data, std::int64_t count) = nullptr;
  // `rounds` times a set of independent fused multiply-adds; returns what keeps them from being
  // left out.
  float (*multiply_add)(std::int64_t rounds) = nullptr;
  std::int64_t operations_per_round = 0;  // a multiplication and an addition are two
};

}  // namespace quire
