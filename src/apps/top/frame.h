// The picture of `quire top`: a state of the engine as lines of text.
#pragma once

#include <string>
#include <vector>

#include "apps/top/live_event.h"

namespace quire {

struct FrameStyle {
  int width = 80;   // of a line, in columns
  int height = 24;  // at most so many lines; 0: all
  bool color = false;
};

std::vector<std::string> frame_of(const LiveEvent& event, const FrameStyle& style);

}  // namespace quire
