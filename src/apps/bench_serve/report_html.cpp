#include "apps/bench_serve/report_html.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/bench_serve/svg_chart.h"

namespace quire::bench {
namespace {

// More than this a chart cannot show.
constexpr std::size_t kMaxPoints = 1500;

constexpr std::string_view kHead = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>quire bench serve</title>
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d5d8dc; --dim: #62676d;
        --warn: #a13d00; --s0: #1f6fb2; --s1: #c2541b; --s2: #2c8a55; --s3: #8a4fb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --paper: #17191c; --line: #3a3f45; --dim: #9aa0a6;
          --warn: #ffab73; --s0: #62aef0; --s1: #f0935c; --s2: #63c991; --s3: #c48fe6; }
}
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; color: var(--ink);
       background: var(--paper); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .3rem; }
p { margin: .2rem 0 .6rem; color: var(--dim); }
pre { margin: .2rem 0 .8rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85em; }
p.warn { color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr));
          gap: 1rem; margin: .8rem 0; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); }
svg text.title { font-size: 14px; font-weight: 600; fill: var(--ink); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 2; }
svg polyline.s0 { stroke: var(--s0); } svg polyline.s1 { stroke: var(--s1); }
svg polyline.s2 { stroke: var(--s2); } svg polyline.s3 { stroke: var(--s3); }
svg circle.s0, svg rect.s0 { fill: var(--s0); } svg circle.s1, svg rect.s1 { fill: var(--s1); }
svg circle.s2, svg rect.s2 { fill: var(--s2); } svg circle.s3, svg rect.s3 { fill: var(--s3); }
</style>
)html";

// Text at the precision that a reader compares with.
std::string significant(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  return value >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

// "0.82 ms", "12.3 s", "2 min 5 s".
std::string time_text(double seconds) {
  if (seconds < 1) return significant(seconds * kMillisecondsPerSecond) + " ms";
  if (seconds < 120) return significant(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

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

// An axis whose values are seconds, in the unit that suits the largest; ends `label` with its name.
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

std::string levels_table(const Report& report) {
  std::string html =
      "<div class=\"wide\"><table>\n<tr><th>load<th>completed<th>failed<th>time<th>requests/s"
      "<th>output tokens/s<th>total tokens/s<th>goodput, requests/s<th>most at once</tr>\n";
  for (const Level& level : report.levels) {
    const Summary& s = level.summary;
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{:.2f}<td>{:.1f}<td>{:.1f}<td>{}<td>{}</tr>\n",
        escape_html(level_name(level.run)), s.completed, s.failed, time_text(s.duration),
        s.requests_per_s(), s.output_tokens_per_s(), s.total_tokens_per_s(),
        s.good ? fmt::format("{:.2f}", s.goodput_per_s()) : "-", s.peak_concurrency);
  }
  return html + "</table></div>\n";
}

std::string latency_table(const Summary& s) {
  std::string html =
      "<div class=\"wide\"><table>\n<tr><th><th>mean<th>p50<th>p90<th>p95<th>p99</tr>\n";
  const auto row = [&html](std::string_view name, const Statistics& values) {
    html += fmt::format("<tr><td>{}", name);
    for (const double value : {values.mean, values.p50, values.p90, values.p95, values.p99}) {
      html += "<td>" + time_text(value);
    }
    html += "</tr>\n";
  };
  row("time to first token", s.ttft);
  row("time per output token", s.tpot);
  row("between tokens", s.itl);
  row("end to end", s.e2el);
  row("client late by", s.client_lag);
  return html + "</table></div>\n";
}

// Beside a point: what the levels of a sweep differ in.
std::string short_name(const RunRecord& run) {
  if (run.request_rate && std::isfinite(*run.request_rate)) {
    return fmt::format("{:g}/s", *run.request_rate);
  }
  return run.max_concurrency ? fmt::format("{}", *run.max_concurrency) : "inf";
}

ChartSeries sweep_series(const Report& report, std::string name, Statistics Summary::*times,
                         double Statistics::*value, bool labelled) {
  ChartSeries series = {.name = std::move(name), .points = {}, .line = true, .dots = true};
  for (const Level& level : report.levels) {
    series.points.push_back({.x = level.summary.output_tokens_per_s(),
                             .y = (level.summary.*times).*value,
                             .label = labelled ? short_name(level.run) : ""});
  }
  return series;
}

// Latency against throughput, a point for each level.
Chart sweep_chart(const Report& report, std::string title, Statistics Summary::*times) {
  Chart chart = {.title = std::move(title),
                 .x_label = "output tokens/s",
                 .y_label = "",
                 .series = {sweep_series(report, "p50", times, &Statistics::p50, false),
                            sweep_series(report, "p95", times, &Statistics::p95, false),
                            sweep_series(report, "p99", times, &Statistics::p99, true)}};
  set_time_axis(chart, &ChartPoint::y, chart.y_label);
  return chart;
}

Chart throughput_chart(const RunRecord& run) {
  const std::size_t slices = run.text_events.size();
  // Whole seconds in long runs: tenths would be noise.
  const std::size_t width = slices > 100 ? 10 * std::max<std::size_t>(slices / 2000, 1) : 1;
  ChartSeries series = {.name = "received", .points = {}};
  for (std::size_t i = 0; i < slices; i += width) {
    const std::size_t end = std::min(i + width, slices);
    double sum = 0;
    for (std::size_t j = i; j < end; ++j) sum += run.text_events[j];
    const double begin = RunRecord::kSliceSeconds * static_cast<double>(i);
    const double seconds = RunRecord::kSliceSeconds * static_cast<double>(end - i);
    series.points.push_back({.x = begin + seconds / 2, .y = sum / seconds});
  }
  Chart chart = {.title = "Pieces of text received",
                 .x_label = "time, ",
                 .y_label = "per second",
                 .series = {std::move(series)}};
  set_time_axis(chart, &ChartPoint::x, chart.x_label);
  return chart;
}

// How many requests had arrived and not ended, and how many of them waited for their first token.
Chart in_flight_chart(const RunRecord& run) {
  constexpr int kSamples = 240;
  ChartSeries all = {.name = "in the system", .points = {}};
  ChartSeries waiting = {.name = "of them without a first token", .points = {}};
  std::vector<double> changes_all(kSamples + 1);
  std::vector<double> changes_waiting(kSamples + 1);
  const auto slot = [&run](double time) {
    const double share = run.duration > 0 ? time / run.duration : 0;
    return static_cast<std::size_t>(std::clamp(std::ceil(share * kSamples), 0.0, 0.0 + kSamples));
  };
  for (const RequestRecord& request : run.requests) {
    if (request.outcome == Outcome::kNotSent) continue;
    const double first = request.text_events > 0 ? request.first_text : request.ended;
    changes_all[slot(request.intended)] += 1;
    changes_all[slot(request.ended)] -= 1;
    changes_waiting[slot(request.intended)] += 1;
    changes_waiting[slot(first)] -= 1;
  }
  double now_all = 0;
  double now_waiting = 0;
  for (int i = 0; i <= kSamples; ++i) {
    const double time = run.duration * i / kSamples;
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

Chart first_token_chart(const RunRecord& run) {
  ChartSeries series = {.name = "completed", .points = {}, .line = false, .dots = true};
  ChartSeries failed = {
      .name = "failed (time of failure)", .points = {}, .line = false, .dots = true};
  const std::size_t stride = run.requests.size() / kMaxPoints + 1;
  for (std::size_t i = 0; i < run.requests.size(); i += stride) {
    const RequestRecord& request = run.requests[i];
    if (request.outcome == Outcome::kCompleted) {
      series.points.push_back({.x = request.intended, .y = request.ttft()});
    } else if (request.outcome == Outcome::kFailed) {
      failed.points.push_back({.x = request.intended, .y = request.e2el()});
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

Chart distribution_chart(const RunRecord& run) {
  std::vector<double> first;
  std::vector<double> whole;
  for (const RequestRecord& request : run.requests) {
    if (request.outcome != Outcome::kCompleted) continue;
    first.push_back(request.ttft());
    whole.push_back(request.e2el());
  }
  Chart chart = {
      .title = "Share of requests that had come so far",
      .x_label = "time from arrival, ",
      .y_label = "%",
      .series = {shares("first token", std::move(first)), shares("end", std::move(whole))}};
  set_time_axis(chart, &ChartPoint::x, chart.x_label);
  return chart;
}

std::string level_section(const Level& level) {
  std::string html = fmt::format("<h2>{}</h2>\n", escape_html(level_name(level.run)));
  for (const FailureLog::Cause& cause : level.run.failures.causes()) {
    html += fmt::format("<p class=\"warn\">{} x {}: {}</p>\n", cause.count,
                        failure_name(cause.kind), escape_html(cause.message));
  }
  for (const std::string& warning : warnings(level)) {
    html += fmt::format("<p class=\"warn\">{}</p>\n", escape_html(warning));
  }
  html += latency_table(level.summary);
  html += "<div class=\"charts\">\n" + draw_chart(throughput_chart(level.run)) +
          draw_chart(in_flight_chart(level.run)) + draw_chart(first_token_chart(level.run)) +
          draw_chart(distribution_chart(level.run)) + "</div>\n";
  return html + fmt::format("<p>{}</p>\n", escape_html(counting_note(level.summary)));
}

}  // namespace

std::string to_html(const Report& report, const Provenance& provenance) {
  std::string html(kHead);
  html += fmt::format(
      "<h1>{}</h1>\n<p>{} {}; {}; seed {}. Times count from when a request was to "
      "arrive.</p>\n",
      escape_html(report.model), escape_html(report.base_url), escape_html(report.endpoint),
      escape_html(report.prompts), report.seed);
  html += fmt::format("<p>{}; quire {}; the client on {}.</p>\n<pre>{}</pre>\n",
                      escape_html(provenance.time), escape_html(provenance.version),
                      escape_html(provenance.machine), escape_html(provenance.command));
  html += levels_table(report);
  if (report.levels.size() > 1) {
    html +=
        "<div class=\"charts\">\n" +
        draw_chart(sweep_chart(report, "Time to first token against throughput", &Summary::ttft)) +
        draw_chart(
            sweep_chart(report, "Time per output token against throughput", &Summary::tpot)) +
        "</div>\n";
  }
  for (const Level& level : report.levels) html += level_section(level);
  return html + "</html>\n";
}

}  // namespace quire::bench
