#include "apps/bench_serve/report_html.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/charts/request_charts.h"

namespace quire::bench {
namespace {

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

std::vector<RequestTimes> times_of(const RunRecord& run) {
  std::vector<RequestTimes> times;
  for (const RequestRecord& request : run.requests) {
    if (request.outcome == Outcome::kNotSent) continue;
    times.push_back({.arrival = request.intended,
                     .first = request.text_events > 0 ? request.first_text : request.ended,
                     .end = request.ended,
                     .completed = request.outcome == Outcome::kCompleted});
  }
  return times;
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
          request_charts(times_of(level.run), level.run.duration) + "</div>\n";
  return html + fmt::format("<p>{}</p>\n", escape_html(counting_note(level.summary)));
}

}  // namespace

std::string to_html(const Report& report, const Provenance& provenance) {
  std::string html = page_head("quire bench serve");
  html += fmt::format(
      "<h1>{}</h1>\n<p>{} {}; {}; seed {}. Times count from when a request was to "
      "arrive.</p>\n",
      escape_html(report.model), escape_html(report.base_url), escape_html(report.endpoint),
      escape_html(report.prompts), report.seed);
  html += provenance_html(provenance, "the client on");
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
