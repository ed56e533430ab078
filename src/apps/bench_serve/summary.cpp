#include "apps/bench_serve/summary.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire::bench {
namespace {

std::vector<double> as_doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// The most requests that were in flight at one time.
std::int64_t peak_concurrency(const std::vector<RequestRecord>& requests) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestRecord& request : requests) {
    if (request.outcome == Outcome::kNotSent) continue;
    changes.emplace_back(request.started, 1);
    changes.emplace_back(request.ended, -1);
  }
  std::sort(changes.begin(), changes.end());  // of one time, an end comes before a start
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    peak = std::max(peak, now);
  }
  return peak;
}

void count_outcome(const RequestRecord& request, Summary& summary) {
  ++summary.planned;
  switch (request.outcome) {
    case Outcome::kNotSent:
      ++summary.not_sent;
      break;
    case Outcome::kUnfinished:
      ++summary.unfinished;
      break;
    case Outcome::kFailed:
      ++summary.failed;
      break;
    case Outcome::kCompleted:
      ++summary.completed;
      break;
  }
}

}  // namespace

Summary summarize(const RunRecord& run, const Objectives& objectives) {
  Summary summary;
  summary.duration = run.duration;
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> e2el;
  if (objectives.any()) summary.good = 0;
  for (const RequestRecord& request : run.requests) {
    count_outcome(request, summary);
    if (request.outcome != Outcome::kCompleted) {
      summary.lost_text_events += request.text_events;
      continue;
    }
    summary.input_tokens += request.prompt_tokens;
    summary.cached_tokens += request.cached_tokens;
    summary.output_tokens += request.output_tokens;
    summary.text_events += request.text_events;
    if (request.usage_given) ++summary.with_usage;
    if (request.prompt_tokens == 0) ++summary.unknown_prompts;
    ttft.push_back(request.ttft());
    if (const auto time = request.tpot()) tpot.push_back(*time);
    e2el.push_back(request.e2el());
    if (objectives.any() && objectives.met_by(request)) ++*summary.good;
  }
  summary.ttft = statistics(std::move(ttft));
  summary.tpot = statistics(std::move(tpot));
  summary.itl = statistics(as_doubles(run.inter_token));
  summary.e2el = statistics(std::move(e2el));
  summary.client_lag = statistics(as_doubles(run.client_lag));
  summary.peak_concurrency = peak_concurrency(run.requests);
  return summary;
}

}  // namespace quire::bench
