#include "apps/simulate/report_html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/plan/plan_values.h"

namespace quire {
namespace {

std::string name_of(const SimulatedRun& run) {
  return run.labels.empty() ? "as given" : fmt::format("{}", fmt::join(run.labels, " "));
}

std::string runs_table(const std::vector<SimulatedRun>& runs) {
  std::string html =
      "<div class=\"wide\"><table>\n<tr><th>settings<th>requests/s<th>output tokens/s"
      "<th>first token, p50<th>p99<th>further tokens, p50<th>p99<th>goodput, requests/s"
      "<th>within limits<th>cache hits<th>KV cache used<th>preemptions<th>USD/million</tr>\n";
  for (const SimulatedRun& run : runs) {
    const SimulationSummary& s = run.summary;
    html += fmt::format(
        "<tr><td>{}<td>{:.2f}<td>{:.1f}<td>{}<td>{}<td>{}<td>{}<td>{:.2f}<td>{:.1f}%<td>{:.1f}%"
        "<td>{:.1f}%<td>{}<td>{}</tr>\n",
        escape_html(name_of(run)), s.requests_per_s, s.output_tokens_per_s, time_text(s.ttft_s.p50),
        time_text(s.ttft_s.p99), time_text(s.tpot_s.p50), time_text(s.tpot_s.p99), s.goodput,
        s.good_share * 100, s.hit_rate * 100, s.kv_used * 100, s.num_preemptions,
        s.usd_per_million_output ? fmt::format("{:.3f}", *s.usd_per_million_output) : "-");
  }
  return html + "</table></div>\n";
}

ChartSeries runs_series(const std::vector<SimulatedRun>& runs, std::string name,
                        Statistics SimulationSummary::*times, double Statistics::*value,
                        bool labelled) {
  ChartSeries series = {.name = std::move(name), .points = {}, .line = false, .dots = true};
  for (const SimulatedRun& run : runs) {
    series.points.push_back({.x = run.summary.output_tokens_per_s,
                             .y = (run.summary.*times).*value,
                             .label = labelled ? name_of(run) : ""});
  }
  return series;
}

// Latency against throughput, a point for each run.
std::string runs_chart(const std::vector<SimulatedRun>& runs, std::string title,
                       Statistics SimulationSummary::*times) {
  Chart chart = {.title = std::move(title),
                 .x_label = "output tokens/s",
                 .y_label = "",
                 .series = {runs_series(runs, "p50", times, &Statistics::p50, true),
                            runs_series(runs, "p99", times, &Statistics::p99, false)}};
  set_time_axis(chart, &ChartPoint::y, chart.y_label);
  return draw_chart(chart);
}

}  // namespace

void SimulationPage::add(const SimulatedRun& run, const std::vector<RequestTimes>& requests) {
  sections_ += fmt::format("<h2>{}</h2>\n<pre>{}</pre>\n<div class=\"charts\">\n{}</div>\n",
                           escape_html(name_of(run)), escape_html(summary_text(run.summary)),
                           request_charts(requests, run.summary.duration_s));
}

std::string SimulationPage::html(const std::vector<SimulatedRun>& runs,
                                 const std::string& note) const {
  std::string html = page_head("quire simulate");
  html += fmt::format("<h1>{}</h1>\n<p>Simulated, in virtual time. {}</p>\n", escape_html(what_),
                      escape_html(note));
  html += provenance_html(provenance_, "made on");
  html += runs_table(runs);
  if (runs.size() > 1) {
    html +=
        "<div class=\"charts\">\n" +
        runs_chart(runs, "Time to first token against throughput", &SimulationSummary::ttft_s) +
        runs_chart(runs, "Time per further token against throughput", &SimulationSummary::tpot_s) +
        "</div>\n";
  }
  return html + sections_ + "</html>\n";
}

}  // namespace quire
