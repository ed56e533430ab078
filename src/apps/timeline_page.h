// A picture of who held which batch slot at each step, as one HTML page without external parts: the
// picture by which continuous batching is usually explained, from a real run.
#pragma once

#include <span>
#include <string>

#include "apps/step_trace.h"

namespace quire {

struct TimelineRun {
  std::string name;
  std::string caption;
  const StepTrace* trace = nullptr;
};

std::string timeline_page(std::span<const TimelineRun> runs);

}  // namespace quire
