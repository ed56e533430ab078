// Charts as SVG text, for pages without scripts. Colours are the page's: series i has the class
// "s" + i, the title "title", the lines behind all "grid".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string label = {};  // shown beside it; empty: none
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // those that are not finite are left out
  bool line = true;
  bool dots = false;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<ChartSeries> series;
};

// An <svg> element. Both axes begin at 0.
std::string draw_chart(const Chart& chart);

// `text` as it may stand in an element or an attribute.
std::string escape_html(std::string_view text);

}  // namespace quire
