#include "apps/bench_spec/report_html.h"

#include <cmath>

#include <fmt/format.h>

#include "apps/bench_spec/theory.h"
#include "apps/charts/svg_chart.h"

namespace quire {
namespace {

// The fixed number of guesses that says most of a text: the largest.
const SpecOutcome* longest(const SpecTextReport& report) {
  const SpecOutcome* found = nullptr;
  for (const SpecOutcome& outcome : report.outcomes) {
    if (!SpecTheory::of(outcome)) continue;
    if (found == nullptr || *outcome.setting > *found->setting) found = &outcome;
  }
  return found;
}

// Over the number of guesses: measured, and by the theory for the acceptance of the most.
std::string speedup_chart(const SpecTextReport& report, const RowCosts& costs,
                          std::int32_t max_guesses) {
  ChartSeries fixed = {.name = "fixed", .points = {{0, 1}}, .line = true, .dots = true};
  ChartSeries governor = {.name = "governor", .points = {}, .line = false, .dots = true};
  for (const SpecOutcome& outcome : report.outcomes) {
    if (!outcome.setting) {
      const double mean = outcome.num_drafted == 0 ? 0
                                                   : static_cast<double>(outcome.num_drafts) /
                                                         static_cast<double>(outcome.num_drafted);
      governor.points.push_back({mean, outcome.speedup, "auto"});
    } else if (*outcome.setting > 0) {
      fixed.points.push_back({static_cast<double>(*outcome.setting), outcome.speedup});
    }
  }
  Chart chart = {.title = "Speed-up",
                 .x_label = "guesses of a step",
                 .y_label = "times plain decoding",
                 .series = {std::move(fixed), std::move(governor)}};
  if (const SpecOutcome* most = longest(report); most != nullptr && costs.row) {
    const SpecTheory theory = *SpecTheory::of(*most);
    ChartSeries curve = {.name = fmt::format("theory at {:.2f}", theory.acceptance), .points = {}};
    for (std::int32_t guesses = 0; guesses <= max_guesses; ++guesses) {
      // On the line through the costs of rows: single numbers of rows are measured unevenly.
      const RowCosts line = {.row = costs.row};
      curve.points.push_back({static_cast<double>(guesses), *theory.speedup(guesses, line)});
    }
    chart.series.push_back(std::move(curve));
  }
  return draw_chart(chart);
}

// Of the steps with guesses: those in which all up to a place were right.
std::string acceptance_chart(const SpecTextReport& report) {
  const SpecOutcome* const most = longest(report);
  if (most == nullptr) return {};
  const SpecTheory theory = *SpecTheory::of(*most);
  ChartSeries measured = {
      .name = fmt::format("{} guesses", *most->setting), .points = {}, .line = true, .dots = true};
  ChartSeries curve = {.name = fmt::format("theory at {:.2f}", theory.acceptance), .points = {}};
  for (std::int32_t place = 1; place <= *most->setting; ++place) {
    const auto index = static_cast<std::size_t>(place) - 1;
    const double count =
        index < most->accepted_at.size() ? static_cast<double>(most->accepted_at[index]) : 0;
    measured.points.push_back(
        {static_cast<double>(place), count / static_cast<double>(most->num_drafted)});
    curve.points.push_back({static_cast<double>(place), std::pow(theory.acceptance, place)});
  }
  return draw_chart({.title = "Right guesses by place",
                     .x_label = "place",
                     .y_label = "share of steps with guesses",
                     .series = {std::move(measured), std::move(curve)}});
}

}  // namespace

std::string to_html(const SpecReport& report, const Provenance& provenance) {
  std::string html = page_head("quire bench spec");
  html += fmt::format("<h1>{}</h1>\n<p>Speculation: {}. {} threads, level {}.</p>\n",
                      escape_html(report.model), escape_html(report.speculation), report.threads,
                      escape_html(report.isa_level));
  html += provenance_html(provenance, "on");
  html += fmt::format("<div class=\"wide\"><pre>{}</pre></div>\n", escape_html(to_text(report)));
  for (const SpecTextReport& each : report.texts) {
    html += fmt::format(
        "<h2>{}</h2>\n<div class=\"charts\">\n{}{}</div>\n", escape_html(each.text.name),
        speedup_chart(each, report.costs, report.max_guesses), acceptance_chart(each));
  }
  return html + "</html>\n";
}

}  // namespace quire
