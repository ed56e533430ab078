#include "apps/charts/request_charts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "apps/statistics.h"

namespace quire {
namespace {

// More than this a chart cannot show.
constexpr std::size_t kMaxPoints = 1500;

struct TimeUnit {
  std::string_view name;
  double seconds = 1;
};

TimeUnit unit_for(double largest_seconds) {
  if (largest_seconds < 1) return {.name = "ms", .seconds = 1 / kMillisecondsPerSecond};
  if (largest_seconds < 300) return {.name = "s", .seconds = 1};
  if (largest_seconds < 18000) return {.name = "min", .seconds = 60};
  return {.name = "h", .seconds = 3600};
}

// How many requests had arrived and not ended, and how many of them waited for their first token.
Chart in_flight_chart(std::span<const RequestTimes> requests, double duration) {
  constexpr int kSamples = 240;
  ChartSeries all = {.name = "in the system", .points = {}};
  ChartSeries waiting = {.name = "of them without a first token", .points = {}};
  std::vector<double> changes_all(kSamples + 1);
  std::vector<double> changes_waiting(kSamples + 1);
  const auto slot = [duration](double time) {
    const double share = duration > 0 ? time / duration : 0;
    return static_cast<std::size_t>(std::clamp(std::ceil(share * kSamples), 0.0, 0.0 + kSamples));
  };
  for (const RequestTimes& request : requests) {
    changes_all[slot(request.arrival)] += 1;
    changes_all[slot(request.end)] -= 1;
    changes_waiting[slot(request.arrival)] += 1;
    changes_waiting[slot(request.first)] -= 1;
  }
  double now_all = 0;
  double now_waiting = 0;
  for (int i = 0; i <= kSamples; ++i) {
    const double time = duration * i / kSamples;
    now_all += changes_all[static_cast<std::size_t>(i)];
    now_waiting += changes_waiting[static_cast<std::size_t>(i)];
    all.points.push_back({.x = time, .y = now_all});
    waiting.points.push_back({.x = time, .y = now_waiting});
  }
  Chart chart = {.title = "Requests",
                 .x_label = "time, ",
                 .y_label = "requests",
                 .series = {std::move(all), std::move(waiting)}};
  set_time_axis(chart, &ChartPoint::x, chart.x_label);
  return chart;
}

Chart first_token_chart(std::span<const RequestTimes> requests) {
  ChartSeries series = {.name = "completed", .points = {}, .line = false, .dots = true};
  ChartSeries failed = {
      .name = "failed (time of failure)", .points = {}, .line = false, .dots = true};
  const std::size_t stride = requests.size() / kMaxPoints + 1;
  for (std::size_t i = 0; i < requests.size(); i += stride) {
    const RequestTimes& request = requests[i];
    if (request.completed) {
      series.points.push_back({.x = request.arrival, .y = request.first - request.arrival});
    } else {
      failed.points.push_back({.x = request.arrival, .y = request.end - request.arrival});
    }
  }
  Chart chart = {.title = "Time to first token of each request",
                 .x_label = "arrival, ",
                 .y_label = "",
                 .series = {std::move(series)}};
  if (!failed.points.empty()) chart.series.push_back(std::move(failed));
  set_time_axis(chart, &ChartPoint::x, chart.x_label);
  set_time_axis(chart, &ChartPoint::y, chart.y_label);
  return chart;
}

ChartSeries shares(std::string name, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  ChartSeries series = {.name = std::move(name), .points = {}};
  constexpr int kSteps = 200;
  for (int i = 0; i <= kSteps && !times.empty(); ++i) {
    const double share = static_cast<double>(i) / kSteps;
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
    series.points.push_back({.x = times[rank], .y = share * 100});
  }
  return series;
}

Chart distribution_chart(std::span<const RequestTimes> requests) {
  std::vector<double> first;
  std::vector<double> whole;
  for (const RequestTimes& request : requests) {
    if (!request.completed) continue;
    first.push_back(request.first - request.arrival);
    whole.push_back(request.end - request.arrival);
  }
  Chart chart = {
      .title = "Share of requests that had come so far",
      .x_label = "time from arrival, ",
      .y_label = "%",
      .series = {shares("first token", std::move(first)), shares("end", std::move(whole))}};
  set_time_axis(chart, &ChartPoint::x, chart.x_label);
  return chart;
}

}  // namespace

void set_time_axis(Chart& chart, double ChartPoint::*value, std::string& label) {
  double largest = 0;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (std::isfinite(point.*value)) largest = std::max(largest, point.*value);
    }
  }
  const TimeUnit unit = unit_for(largest);
  for (ChartSeries& series : chart.series) {
    for (ChartPoint& point : series.points) point.*value /= unit.seconds;
  }
  label += unit.name;
}

std::string request_charts(std::span<const RequestTimes> requests, double duration) {
  return draw_chart(in_flight_chart(requests, duration)) + draw_chart(first_token_chart(requests)) +
         draw_chart(distribution_chart(requests));
}

}  // namespace quire
