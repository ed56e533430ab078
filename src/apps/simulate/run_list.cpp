#include "apps/simulate/run_list.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/plan/plan_values.h"

namespace quire {
namespace {

std::string change_text(double base, double changed) {
  return base > 0 ? fmt::format("{:+.1f}%", (changed / base - 1) * 100) : std::string("-");
}

// Of shares.
std::string points_text(double base, double changed) {
  return fmt::format("{:+.1f}", (changed - base) * 100);
}

}  // namespace

Status RunList::open_page(const std::string& html) {
  if (html.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(html_, OutputFile::create(html));
  return {};
}

Status RunList::add(const std::vector<std::string>& labels, const Simulate& simulate) {
  const std::string note = fmt::format("{}", fmt::join(labels, " "));
  auto outcome = simulate(
      [&](std::size_t ended) { bar_.update(static_cast<double>(ended), num_requests_, note); });
  bar_.clear();
  QUIRE_RETURN_IF_ERROR(outcome.status());
  runs_.push_back({.labels = labels, .summary = std::move(outcome->summary)});
  if (html_) page_.add(runs_.back(), outcome->requests);
  return {};
}

Status RunList::close_page(const std::string& note) {
  if (!html_) return {};
  QUIRE_RETURN_IF_ERROR(html_->write(page_.html(runs_, note)));
  return html_->close();
}

std::string run_table_head() {
  return fmt::format("{:<44}{:>11}{:>12}{:>12}{:>12}{:>12}{:>8}{:>8}{:>8}{:>9}{:>12}\n", "settings",
                     "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "good", "hits",
                     "waste", "preempt.", "USD/million");
}

std::string run_table_row(const std::string& name, const SimulationSummary& summary) {
  return fmt::format(
      "{:<44}{:>11.1f}{:>12}{:>12}{:>12}{:>12}{:>7.1f}%{:>7.1f}%{:>7.1f}%{:>9}{:>12}\n", name,
      summary.output_tokens_per_s, time_text(summary.ttft_s.p50), time_text(summary.ttft_s.p99),
      time_text(summary.tpot_s.p50), time_text(summary.tpot_s.p99), summary.good_share * 100,
      summary.hit_rate * 100, summary.kv_waste * 100, summary.num_preemptions,
      summary.usd_per_million_output ? fmt::format("{:.3f}", *summary.usd_per_million_output)
                                     : "-");
}

std::string run_table_change(const std::string& name, const SimulationSummary& base,
                             const SimulationSummary& changed) {
  return fmt::format("{:<44}{:>11}{:>12}{:>12}{:>12}{:>12}{:>8}{:>8}{:>8}{:>9}{:>12}\n", name,
                     change_text(base.output_tokens_per_s, changed.output_tokens_per_s),
                     change_text(base.ttft_s.p50, changed.ttft_s.p50),
                     change_text(base.ttft_s.p99, changed.ttft_s.p99),
                     change_text(base.tpot_s.p50, changed.tpot_s.p50),
                     change_text(base.tpot_s.p99, changed.tpot_s.p99),
                     points_text(base.good_share, changed.good_share),
                     points_text(base.hit_rate, changed.hit_rate),
                     points_text(base.kv_waste, changed.kv_waste),
                     fmt::format("{:+}", changed.num_preemptions - base.num_preemptions),
                     change_text(base.usd_per_million_output.value_or(0),
                                 changed.usd_per_million_output.value_or(0)));
}

json::object to_json(const SimulatedRun& run) {
  json::object report = to_json(run.summary);
  report["settings"] = json::array(run.labels.begin(), run.labels.end());
  return report;
}

}  // namespace quire
