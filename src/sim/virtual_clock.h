// Time in a simulation: it passes when the simulation says so.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace quire {

class VirtualClock {
 public:
  Instant now() const { return now_; }
  void advance(Duration duration) { now_ += duration; }
  void advance_to(Instant instant) { now_ = std::max(now_, instant); }  // never back

 private:
  Instant now_{};
};

}  // namespace quire
