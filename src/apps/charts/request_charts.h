// Charts of when requests came and were answered, measured or simulated.
#pragma once

#include <span>
#include <string>

#include "apps/charts/svg_chart.h"

namespace quire {

// In seconds since the start.
struct RequestTimes {
  double arrival = 0;
  double first = 0;  // token; `end` where there was none
  double end = 0;
  bool completed = true;
};

// An axis whose values are seconds, in the unit that suits the largest; ends `label` with its name.
void set_time_axis(Chart& chart, double ChartPoint::*value, std::string& label);

// How many there were and waited, when each had its first token, and how many had it after which
// time: three <svg> elements.
std::string request_charts(std::span<const RequestTimes> requests, double duration);

}  // namespace quire
