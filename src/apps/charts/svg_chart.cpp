#include "apps/charts/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace quire {
namespace {

// The plot's place in the picture; around it are the axes' texts.
constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kLeft = 70;
constexpr double kRight = 610;  // half of the last number lies beyond
constexpr double kTop = 42;
constexpr double kBottom = 268;

// From 0 to a round number that is not below the largest value, in round steps.
struct Axis {
  double step = 1;
  int count = 1;

  explicit Axis(double largest) {
    if (!(largest > 0)) return;
    const double unit = std::pow(10, std::floor(std::log10(largest / 5)));
    for (const double factor : std::array{1.0, 2.0, 5.0, 10.0}) {
      step = unit * factor;
      count = static_cast<int>(std::ceil(largest / step - 1e-9));
      if (count <= 6) break;
    }
  }
  double end() const { return step * count; }
};

// "0.25", "800", "25k", "1.5M": short enough for the margin, whatever the value.
std::string tick_text(double value) {
  if (value >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

bool is_drawn(const ChartPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart),
        x_(largest([](const ChartPoint& point) { return point.x; })),
        y_(largest([](const ChartPoint& point) { return point.y; })) {}

  std::string text() {
    out_ = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n"
        "<text class=\"title\" x=\"{}\" y=\"16\">{}</text>\n",
        kWidth, kHeight, escape_html(chart_.title), kLeft, escape_html(chart_.title));
    axes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) series(chart_.series[i], i);
    legend();
    return out_ + "</svg>\n";
  }

 private:
  template <typename Get>
  double largest(Get get) const {
    double value = 0;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (is_drawn(point)) value = std::max(value, get(point));
      }
    }
    return value;
  }

  double at_x(double value) const { return kLeft + value / x_.end() * (kRight - kLeft); }
  double at_y(double value) const { return kBottom - value / y_.end() * (kBottom - kTop); }

  void axes() {
    for (int i = 0; i <= y_.count; ++i) {
      const double y = at_y(y_.step * i);
      out_ += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text text-anchor=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n",
          kLeft, kRight, y, y, kLeft - 6, y + 4, tick_text(y_.step * i));
    }
    for (int i = 0; i <= x_.count; ++i) {
      out_ += fmt::format("<text text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                          at_x(x_.step * i), kBottom + 16, tick_text(x_.step * i));
    }
    out_ += fmt::format(
        "<text text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>\n"
        "<text text-anchor=\"middle\" transform=\"translate(14 {}) "
        "rotate(-90)\">{}</text>\n",
        kRight, kBottom + 34, escape_html(chart_.x_label), (kTop + kBottom) / 2,
        escape_html(chart_.y_label));
  }

  void series(const ChartSeries& series, std::size_t index) {
    if (series.line) {
      std::string points;
      for (const ChartPoint& point : series.points) {
        if (is_drawn(point)) points += fmt::format("{:.1f},{:.1f} ", at_x(point.x), at_y(point.y));
      }
      out_ += fmt::format("<polyline class=\"s{}\" points=\"{}\"/>\n", index, points);
    }
    for (const ChartPoint& point : series.points) {
      if (!is_drawn(point)) continue;
      const double x = at_x(point.x);
      const double y = at_y(point.y);
      if (series.dots) {
        out_ += fmt::format("<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n",
                            index, x, y);
      }
      if (!point.label.empty()) {
        out_ += fmt::format("<text text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                            x > kRight - 40 ? "end" : "middle", x, y - 7, escape_html(point.label));
      }
    }
  }

  void legend() {
    if (chart_.series.size() < 2) return;
    double x = kLeft;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i].name;
      out_ += fmt::format(
          "<rect class=\"s{}\" x=\"{:.0f}\" y=\"{}\" width=\"10\" height=\"10\"/>"
          "<text x=\"{:.0f}\" y=\"{}\">{}</text>\n",
          i, x, kHeight - 22, x + 14, kHeight - 13, escape_html(name));
      x += 30 + 7 * static_cast<double>(name.size());
    }
  }

  const Chart& chart_;
  Axis x_;
  Axis y_;
  std::string out_;
};

}  // namespace

std::string draw_chart(const Chart& chart) { return Drawing(chart).text(); }

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace quire
