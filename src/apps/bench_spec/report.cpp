#include "apps/bench_spec/report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/bench_spec/theory.h"

namespace quire {
namespace {

json::value to_json(std::optional<double> value) {
  return value ? json::value(*value) : json::value();
}

json::object to_json(const SpecOutcome& outcome, const RowCosts& costs) {
  json::array places;
  for (const std::int64_t count : outcome.accepted_at) places.push_back(count);
  json::object object = {{"drafts", spec_setting_name(outcome.setting)},
                         {"num_turns", outcome.num_turns},
                         {"tokens_per_s", outcome.tokens_per_s},
                         {"speedup", outcome.speedup},
                         {"speedup_p25", outcome.speedup_p25},
                         {"speedup_p75", outcome.speedup_p75},
                         {"told_speedup", to_json(outcome.told_speedup)},
                         {"bound", to_json(spec_bound(outcome, costs))},
                         {"draft_seconds", outcome.draft_seconds},
                         {"verify_seconds", outcome.verify_seconds},
                         {"num_tokens", outcome.num_tokens},
                         {"num_drafted_steps", outcome.num_drafted},
                         {"num_draft_tokens", outcome.num_drafts},
                         {"num_accepted_tokens", outcome.num_accepted},
                         {"accepted_at", std::move(places)},
                         {"block_efficiency", outcome.block_efficiency()},
                         {"same_output", outcome.same_output}};
  if (const auto theory = SpecTheory::of(outcome)) {
    object["acceptance_rate"] = theory->acceptance;
    object["theory"] =
        json::object{{"block_efficiency", theory->block_efficiency(*outcome.setting)},
                     {"speedup", to_json(theory->speedup(*outcome.setting, costs))}};
  }
  return object;
}

json::value to_json(const std::optional<Agreement>& agreement) {
  if (!agreement) return {};
  return json::object{{"best", agreement->best},
                      {"one_number", agreement->one_number},
                      {"rejection_sampling", agreement->rejection},
                      {"num_places", agreement->num_places}};
}

std::string ratio_text(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

std::string outcome_line(const SpecText& text, const SpecOutcome& outcome, const RowCosts& costs) {
  std::vector<std::string> places;
  for (const std::int64_t count : outcome.accepted_at) {
    if (places.size() == 6) break;
    places.push_back(fmt::format(
        "{:.2f}", static_cast<double>(count) / static_cast<double>(outcome.num_drafted)));
  }
  return fmt::format(
      "{:<12}{:>8}{:>10.1f}{:>10.2f}{:>12}{:>8}{:>8}{:>9.2f}{:>9.2f}{:>9}{:>10}{:>8.2f}  {}{}\n",
      text.name, spec_setting_name(outcome.setting), outcome.tokens_per_s, outcome.speedup,
      fmt::format("{:.2f}-{:.2f}", outcome.speedup_p25, outcome.speedup_p75),
      ratio_text(outcome.told_speedup), ratio_text(spec_bound(outcome, costs)),
      outcome.draft_seconds, outcome.verify_seconds, outcome.num_drafts, outcome.num_accepted,
      outcome.block_efficiency(), fmt::join(places, " "),
      outcome.same_output ? "" : "  ANOTHER OUTPUT");
}

std::string theory_table(const SpecReport& report) {
  std::string lines;
  for (const SpecTextReport& each : report.texts) {
    for (const SpecOutcome& outcome : each.outcomes) {
      const auto theory = SpecTheory::of(outcome);
      if (!theory) continue;
      lines +=
          fmt::format("{:<12}{:>8}{:>12.2f}{:>10.2f}{:>11.2f}{:>10.2f}{:>11}\n", each.text.name,
                      *outcome.setting, theory->acceptance, outcome.block_efficiency(),
                      theory->block_efficiency(*outcome.setting), outcome.speedup,
                      ratio_text(theory->speedup(*outcome.setting, report.costs)));
    }
  }
  if (lines.empty()) return {};
  return fmt::format(
             "\nFixed numbers of guesses, beside the theory in which each guess is right with one "
             "probability\n{:<12}{:>8}{:>12}{:>10}{:>11}{:>10}{:>11}\n",
             "text", "drafts", "acceptance", "a step", "in theory", "speed-up", "in theory") +
         lines;
}

std::string agreement_table(const SpecReport& report) {
  std::string lines;
  for (const SpecTextReport& each : report.texts) {
    if (!each.agreement) continue;
    lines += fmt::format("{:<12}{:>8}{:>8.2f}{:>18.2f}{:>20.2f}\n", each.text.name,
                         each.agreement->num_places, each.agreement->best,
                         each.agreement->one_number, each.agreement->rejection);
  }
  if (lines.empty()) return {};
  return fmt::format(
             "\nA first guess is right, by both models' probabilities along an output sampled at a "
             "temperature of 1\n{:<12}{:>8}{:>8}{:>18}{:>20}\n",
             "text", "places", "greedy", "with one number", "rejection sampling") +
         lines;
}

}  // namespace

std::optional<double> spec_bound(const SpecOutcome& outcome, const RowCosts& costs) {
  if (!costs.row) return std::nullopt;
  const double share =
      static_cast<double>(outcome.num_accepted) / static_cast<double>(outcome.num_tokens);
  return 1 / (1 - share + share * *costs.row);
}

json::object to_json(const SpecReport& report) {
  json::array texts;
  for (const SpecTextReport& each : report.texts) {
    json::array outcomes;
    for (const SpecOutcome& outcome : each.outcomes) {
      outcomes.push_back(to_json(outcome, report.costs));
    }
    texts.push_back({{"text", each.text.name},
                     {"message", each.text.message},
                     {"random_digits", each.text.random_digits},
                     {"outcomes", std::move(outcomes)},
                     {"agreement", to_json(each.agreement)}});
  }
  json::array steps;
  const auto most = static_cast<std::size_t>(1 + report.max_guesses);
  for (std::size_t i = 0; i < std::min(most, report.costs.seconds.size()); ++i) {
    if (report.costs.seconds[i] > 0) {
      steps.push_back({{"rows", i + 1}, {"seconds", report.costs.seconds[i]}});
    }
  }
  return {{"model", report.model},
          {"isa_level", report.isa_level},
          {"threads", report.threads},
          {"speculation", report.speculation},
          {"output_len", report.load.num_tokens},
          {"num_turns", report.load.num_turns},
          {"interrupted", report.interrupted},
          {"concurrency", report.load.concurrency},
          {"cost_of_row", to_json(report.costs.row)},
          {"steps", std::move(steps)},
          {"texts", std::move(texts)}};
}

std::string to_text(const SpecReport& report) {
  std::string text =
      fmt::format("{}, {} threads, level {}; {}\n{} tokens, {} at once, {} turns", report.model,
                  report.threads, report.isa_level, report.speculation, report.load.num_tokens,
                  report.load.concurrency, report.load.num_turns);
  if (report.costs.row) {
    text += fmt::format("; a step of one row takes {:.2f} ms, a row more costs {:.2f} of it",
                        report.costs.seconds[0] * 1e3, *report.costs.row);
  }
  if (report.interrupted) {
    text += fmt::format("\ninterrupted: {} of {} texts, the last one with {} turns",
                        report.texts.size(), spec_texts().size(),
                        report.texts.back().outcomes[0].num_turns);
  }
  text += fmt::format("\n\n{:<12}{:>8}{:>10}{:>10}{:>12}{:>8}{:>8}{:>9}{:>9}{:>9}{:>10}{:>8}  {}\n",
                      "text", "drafts", "tokens/s", "speed-up", "quartiles", "told", "bound",
                      "draft s", "verify s", "drafted", "accepted", "a step", "accepted, by place");
  for (const SpecTextReport& each : report.texts) {
    for (const SpecOutcome& outcome : each.outcomes) {
      text += outcome_line(each.text, outcome, report.costs);
    }
  }
  return text + theory_table(report) + agreement_table(report);
}

}  // namespace quire
