// What the steps of a machine take, for simulations of it. A step's matrix products have a row for
// each of its tokens, and their time is no straight line: few rows wait for the weights, many for
// the arithmetic, and kernels change in between. So the time of a step is a curve over its tokens,
// and costs in proportion on top: of the rows that sample, and of the keys.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "core/step_pace.h"

namespace quire {

std::int64_t tokens_of(const StepWork& work);

struct StepTimes {
  struct Point {
    std::int64_t tokens = 0;  // of a step, > 0
    double value = 0;
  };

  // Nanoseconds; ascending by tokens, one point at least. Straight lines in between, the first
  // point's value before it, and on behind the last as between the last two.
  std::vector<Point> tokens;
  double row = 0;          // ns, of each row
  double row_keys = 0;     // ns, of StepCost::kKeys keys that rows see
  double prompt_keys = 0;  // the same of prompts
  // How many times all of the above a step of so many tokens takes: straight in between over the
  // logarithm of tokens, and like the nearest point beyond. Empty: once.
  std::vector<Point> factors = {};

  Duration time_of(const StepWork& work) const;
};

}  // namespace quire
