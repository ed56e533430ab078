#include "apps/bench_serve/report.h"

#include <cmath>

#include <fmt/format.h>

namespace quire::bench {
namespace {

// Of a core: above this the client's own work is in the times that it measures.
constexpr double kBusyClient = 0.9;
constexpr double kLateClient = 0.010;  // seconds, p99

json::object in_ms(const Statistics& s) {
  return to_json(Statistics{.mean = s.mean * kMillisecondsPerSecond,
                            .p50 = s.p50 * kMillisecondsPerSecond,
                            .p90 = s.p90 * kMillisecondsPerSecond,
                            .p95 = s.p95 * kMillisecondsPerSecond,
                            .p99 = s.p99 * kMillisecondsPerSecond});
}

json::value rate_value(const RunRecord& run) {
  if (!run.request_rate) return nullptr;
  if (std::isinf(*run.request_rate)) return "inf";
  return *run.request_rate;
}

double tokens_per_event(const Summary& summary) {
  return summary.text_events == 0 ? 0
                                  : static_cast<double>(summary.output_tokens) /
                                        static_cast<double>(summary.text_events);
}

json::array failures_json(const FailureLog& failures) {
  json::array all;
  for (const FailureLog::Cause& cause : failures.causes()) {
    all.push_back(json::object{
        {"kind", failure_name(cause.kind)}, {"message", cause.message}, {"count", cause.count}});
  }
  return all;
}

json::object level_json(const Level& level, const Objectives& objectives) {
  const RunRecord& run = level.run;
  const Summary& s = level.summary;
  json::object result = {{"request_rate", rate_value(run)},
                         {"max_concurrency", run.max_concurrency ? json::value(*run.max_concurrency)
                                                                 : json::value(nullptr)},
                         {"num_prompts", s.planned},
                         {"completed", s.completed},
                         {"failed", s.failed},
                         {"unfinished", s.unfinished},
                         {"not_sent", s.not_sent},
                         {"interrupted", run.interrupted},
                         {"duration", s.duration},
                         {"total_input_tokens", s.input_tokens},
                         {"cached_input_tokens", s.cached_tokens},
                         {"total_output_tokens", s.output_tokens},
                         {"request_throughput", s.requests_per_s()},
                         {"output_throughput", s.output_tokens_per_s()},
                         {"total_token_throughput", s.total_tokens_per_s()},
                         {"peak_concurrency", s.peak_concurrency},
                         {"ttft_ms", in_ms(s.ttft)},
                         {"tpot_ms", in_ms(s.tpot)},
                         {"itl_ms", in_ms(s.itl)},
                         {"e2el_ms", in_ms(s.e2el)}};
  if (s.good) {
    result["goodput"] = json::object{{"objectives_ms", to_json(objectives)},
                                     {"good_requests", *s.good},
                                     {"requests_per_s", s.goodput_per_s()}};
  }
  result["counting"] = json::object{{"requests_with_usage", s.with_usage},
                                    {"text_events", s.text_events},
                                    {"tokens_per_text_event", tokens_per_event(s)},
                                    {"text_events_of_lost_requests", s.lost_text_events}};
  result["client"] = json::object{{"lag_ms", in_ms(s.client_lag)},
                                  {"cpu_seconds", run.client_cpu_seconds},
                                  {"connections_opened", run.connections_opened}};
  result["failures"] = failures_json(run.failures);
  return result;
}

std::string latency_row(std::string_view name, const Statistics& s) {
  return fmt::format("{:<20}{:>11.2f}{:>11.2f}{:>11.2f}{:>11.2f}{:>11.2f}\n", name,
                     s.mean * kMillisecondsPerSecond, s.p50 * kMillisecondsPerSecond,
                     s.p90 * kMillisecondsPerSecond, s.p95 * kMillisecondsPerSecond,
                     s.p99 * kMillisecondsPerSecond);
}

std::string outcome_text(const Summary& s) {
  std::string text = fmt::format("{} of {} completed", s.completed, s.planned);
  if (s.failed > 0) text += fmt::format(", {} FAILED", s.failed);
  if (s.unfinished > 0) text += fmt::format(", {} cut short", s.unfinished);
  if (s.not_sent > 0) text += fmt::format(", {} not sent", s.not_sent);
  return text;
}

std::string notes_text(const Level& level) {
  std::string text;
  for (const FailureLog::Cause& cause : level.run.failures.causes()) {
    text += fmt::format("  {:>6} x {}: {}\n", cause.count, failure_name(cause.kind), cause.message);
  }
  for (const std::string& warning : warnings(level)) text += fmt::format("note: {}\n", warning);
  return text;
}

std::string level_text(const Level& level) {
  const Summary& s = level.summary;
  const auto row = [](std::string_view name, double value) {
    return fmt::format("{:<20}{:>11.2f}\n", name, value);
  };
  std::string text =
      fmt::format("{}: {} in {:.2f} s\n\n", level_name(level.run), outcome_text(s), s.duration);
  text += row("requests/s", s.requests_per_s());
  text += row("output tokens/s", s.output_tokens_per_s());
  text += row("total tokens/s", s.total_tokens_per_s());
  if (s.good) {
    text += fmt::format("{:<20}{:>11.2f}   ({} of {} requests in time)\n", "goodput, requests/s",
                        s.goodput_per_s(), *s.good, s.planned);
  }
  text += fmt::format("{:<20}{:>11}\n", "most at once", s.peak_concurrency);
  text += fmt::format("\n{:<20}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "ms", "mean", "p50", "p90", "p95",
                      "p99");
  text += latency_row("TTFT", s.ttft);
  text += latency_row("TPOT", s.tpot);
  text += latency_row("between tokens", s.itl);
  text += latency_row("end to end", s.e2el);
  text += latency_row("client late by", s.client_lag);
  return text + fmt::format("\n{}\n", counting_note(s)) + notes_text(level);
}

std::string sweep_text(const Report& report) {
  std::string text =
      fmt::format("{:<20}{:>8}{:>9}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}\n", "", "done",
                  "req/s", "out tok/s", "all tok/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99",
                  "goodput", "failed");
  for (const Level& level : report.levels) {
    const Summary& s = level.summary;
    text += fmt::format(
        "{:<20}{:>8}{:>9.2f}{:>11.1f}{:>11.1f}{:>10.1f}{:>10.1f}{:>10.2f}{:>10.2f}{:>10}{:>8}\n",
        level_name(level.run), s.completed, s.requests_per_s(), s.output_tokens_per_s(),
        s.total_tokens_per_s(), s.ttft.p50 * kMillisecondsPerSecond,
        s.ttft.p99 * kMillisecondsPerSecond, s.tpot.p50 * kMillisecondsPerSecond,
        s.tpot.p99 * kMillisecondsPerSecond,
        s.good ? fmt::format("{:.2f}", s.goodput_per_s()) : "-", s.failed);
  }
  text += "\ntimes in ms, goodput in requests/s\n";
  for (const Level& level : report.levels) {
    const std::string notes = notes_text(level);
    if (!notes.empty()) text += fmt::format("\n{}:\n{}", level_name(level.run), notes);
  }
  return text + fmt::format("\n{}\n", counting_note(report.levels.back().summary));
}

}  // namespace

std::string level_name(const RunRecord& run) {
  std::string name;
  if (!run.request_rate) {
    name = "as in the trace";
  } else if (!std::isinf(*run.request_rate)) {
    name = fmt::format("{:g} requests/s", *run.request_rate);
  } else if (run.max_concurrency) {
    return fmt::format("{} at once", *run.max_concurrency);
  } else {
    return "all at once";
  }
  if (run.max_concurrency) name += fmt::format(", at most {}", *run.max_concurrency);
  return name;
}

std::string counting_note(const Summary& summary) {
  if (summary.completed == 0) return "no request was completed: there are no tokens to count";
  const std::string pieces = fmt::format("{} pieces of text were received, {:.2f} tokens each",
                                         summary.text_events, tokens_per_event(summary));
  if (summary.with_usage == summary.completed) {
    return "tokens are counted by the server's usage; " + pieces;
  }
  if (summary.with_usage == 0) {
    return fmt::format("the server gives no usage: each of {} pieces of text counts as one token",
                       summary.text_events);
  }
  return fmt::format(
      "tokens are counted by the server's usage for {} of {} requests, by pieces of "
      "text for the others; {}",
      summary.with_usage, summary.completed, pieces);
}

std::vector<std::string> warnings(const Level& level) {
  const Summary& s = level.summary;
  std::vector<std::string> all;
  if (level.run.interrupted)
    all.emplace_back("interrupted: the figures are those of what was done");
  if (s.lost_text_events > 0) {
    all.push_back(
        fmt::format("{} pieces of text belong to requests that were not completed; they "
                    "are in no throughput",
                    s.lost_text_events));
  }
  if (s.completed > 0 && s.unknown_prompts > 0) {
    all.push_back(fmt::format("{} prompts are of unknown length and count as no tokens in",
                              s.unknown_prompts));
  }
  const double busy = s.duration > 0 ? level.run.client_cpu_seconds / s.duration : 0;
  if (busy > kBusyClient) {
    all.push_back(
        fmt::format("the client was busy {:.0f}% of the time: a part of the times is its "
                    "own",
                    busy * 100));
  } else if (s.client_lag.p99 > kLateClient) {
    all.push_back(
        fmt::format("the client was late by {:.0f} ms (p99): it had too little of a "
                    "processor",
                    s.client_lag.p99 * kMillisecondsPerSecond));
  }
  return all;
}

std::string to_text(const Report& report) {
  std::string text = fmt::format("{} {}, model {}\n{}\n\n", report.base_url, report.endpoint,
                                 report.model, report.prompts);
  return text + (report.levels.size() == 1 ? level_text(report.levels[0]) : sweep_text(report));
}

json::object to_json(const Report& report) {
  json::object result = {{"base_url", report.base_url}, {"endpoint", report.endpoint},
                         {"model", report.model},       {"dataset_name", report.dataset},
                         {"prompts", report.prompts},   {"seed", report.seed}};
  json::array levels;
  for (const Level& level : report.levels) levels.push_back(level_json(level, report.objectives));
  for (const auto& entry : levels.back().get_object()) result[entry.key()] = entry.value();
  result["levels"] = std::move(levels);
  return result;
}

}  // namespace quire::bench
