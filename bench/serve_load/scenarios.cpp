#include "serve_load/scenarios.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "apps/statistics.h"
#include "serve_load/load_client.h"
#include "serve_load/requests.h"

namespace quire::load {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPatience{120'000};
constexpr int kMaxOpen = 16'000;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

void add_percentiles(json::object& report, std::string_view name, std::vector<double> samples_ms) {
  double max = 0;
  for (const double each : samples_ms) max = std::max(max, each);
  const Statistics s = statistics(std::move(samples_ms));
  report[fmt::format("{}_p50_ms", name)] = rounded(s.p50, 0.001);
  report[fmt::format("{}_p99_ms", name)] = rounded(s.p99, 0.001);
  report[fmt::format("{}_max_ms", name)] = rounded(max, 0.001);
}

struct Totals {
  std::int64_t errors = 0;
  std::int64_t tokens = 0;
  std::int64_t events = 0;
  std::string first_error;
};

// An error is whatever is not a complete stream with as many tokens as were asked for.
Totals totals_of(const LoadClient& client, std::int64_t max_tokens) {
  Totals totals;
  for (std::size_t i = 0; i < client.num_clients(); ++i) {
    const ClientResult& result = client.result(i);
    totals.tokens += result.completion_tokens;
    totals.events += result.num_events;
    const bool good = result.ending == Ending::kAnswered && result.status == 200 &&
                      result.num_errors == 0 && result.num_streams_done == result.num_answers &&
                      result.completion_tokens == max_tokens * result.num_answers;
    if (good) continue;
    ++totals.errors;
    if (totals.first_error.empty()) {
      totals.first_error = fmt::format("client {}: ending {}, status {}, {} of {} tokens, {}", i,
                                       static_cast<int>(result.ending), result.status,
                                       result.completion_tokens, max_tokens, result.error);
    }
  }
  return totals;
}

// Arrivals against the ends of their steps, token by token. Events without a step (the usage) come
// last.
std::vector<double> added_latency_ms(const LoadClient& client, const StepTrace& trace) {
  std::vector<double> added;
  for (std::size_t i = 0; i < client.num_clients(); ++i) {
    const auto ends = trace.tokens_of(static_cast<std::int32_t>(i));
    const auto& arrivals = client.result(i).event_times;
    const std::size_t count = std::min(ends.size(), arrivals.size());
    for (std::size_t t = 0; t < count; ++t) added.push_back(ms_between(ends[t], arrivals[t]));
  }
  return added;
}

std::vector<double> gaps_ms(const LoadClient& client, std::size_t first, std::size_t count) {
  std::vector<double> gaps;
  for (std::size_t i = first; i < first + count; ++i) {
    const auto& times = client.result(i).event_times;
    for (std::size_t t = 1; t < times.size(); ++t) {
      gaps.push_back(ms_between(times[t - 1], times[t]));
    }
  }
  return gaps;
}

ClientPlan stream_plan(const LoadShape& shape, std::int32_t key) {
  ClientPlan plan;
  plan.request = completion_request({.key = key,
                                     .prompt_tokens = shape.prompt_tokens,
                                     .max_tokens = shape.max_tokens,
                                     .stream = true,
                                     .every_token = true});
  plan.record_times = true;
  return plan;
}

// Time of each thread for an event, and of all of them for a second.
void add_cpu(json::object& report, const ProcessStats& before, const ProcessStats& after,
             std::int64_t events, double elapsed_s) {
  double all = 0;
  for (const auto& [name, cpu_s] : after.thread_cpu_s) {
    const auto earlier = before.thread_cpu_s.find(name);
    const double spent = cpu_s - (earlier == before.thread_cpu_s.end() ? 0 : earlier->second);
    all += spent;
    report[fmt::format("us_per_event {}", name)] =
        rounded(spent / static_cast<double>(std::max<std::int64_t>(1, events)) * 1e6, 0.01);
  }
  report["cores_used"] = rounded(all / elapsed_s, 0.01);
}

// One short stream, so that what a first request needs is there.
Status warm_up(const Target& target) {
  LoadClient client(target.host(), target.port(), 1);
  client.add({.request = completion_request({.key = StepTrace::kMaxKey, .max_tokens = 4})});
  QUIRE_RETURN_IF_ERROR(client.run(kPatience));
  const Totals totals = totals_of(client, 4);
  if (totals.errors > 0) return Status::unavailable("the first stream: " + totals.first_error);
  return {};
}

}  // namespace

Result<json::object> measure_streams(const Target& target, const LoadShape& shape) {
  QUIRE_RETURN_IF_ERROR(warm_up(target));
  LoadClient client(target.host(), target.port(), kMaxOpen);
  for (int i = 0; i < shape.clients; ++i) client.add(stream_plan(shape, i));
  const ProcessStats before = target.stats();
  // The peak, as long as all are at it.
  std::int64_t rss_bytes = 0;
  const auto start = Clock::now();
  int most_open = 0;
  do {
    QUIRE_RETURN_IF_ERROR(client.run(milliseconds(200)));
    rss_bytes = std::max(rss_bytes, target.stats().rss_bytes);
    most_open = std::max(most_open, client.num_open());
  } while (client.num_open() > 0 && Clock::now() - start < kPatience);
  const double elapsed_s = ms_between(start, Clock::now()) / 1e3;
  const ProcessStats after = target.stats();
  const Totals totals = totals_of(client, shape.max_tokens);
  json::object report = {
      {"clients", shape.clients},
      {"streams_at_once", most_open},
      {"errors", totals.errors},
      {"tokens", totals.tokens},
      {"tokens_expected", shape.clients * shape.max_tokens},
      {"events", totals.events},
      {"tokens_per_s", rounded(static_cast<double>(totals.tokens) / elapsed_s, 1)},
      {"rss_kib_per_stream", (rss_bytes - before.rss_bytes) / 1024 / std::max(1, shape.clients)}};
  if (!totals.first_error.empty()) report["first_error"] = totals.first_error;
  if (const StepTrace* trace = target.trace()) {
    add_percentiles(report, "added", added_latency_ms(client, *trace));
  }
  std::vector<double> first_event_ms;
  for (std::size_t i = 0; i < client.num_clients(); ++i) {
    const ClientResult& result = client.result(i);
    if (!result.event_times.empty()) {
      first_event_ms.push_back(ms_between(result.sent, result.event_times.front()));
    }
  }
  add_percentiles(report, "first_event", std::move(first_event_ms));
  add_cpu(report, before, after, totals.events, elapsed_s);
  return report;
}

Result<json::object> measure_disconnects(const Target& target, const LoadShape& shape) {
  constexpr int kOpenAtOnce = 400;
  QUIRE_RETURN_IF_ERROR(warm_up(target));
  std::mt19937_64 random(shape.seed);
  const auto up_to = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  LoadClient client(target.host(), target.port(), kOpenAtOnce);
  std::this_thread::sleep_for(seconds(1));  // until the warm-up's connection is closed
  const ProcessStats before = target.stats();
  for (int i = 0; i < shape.clients; ++i) {
    ClientPlan plan;
    // Long prompts are computed over several steps, long outputs never end by themselves.
    plan.request = completion_request({.key = i % StepTrace::kMaxKey,
                                       .prompt_tokens = 2 + up_to(150),
                                       .max_tokens = static_cast<std::int64_t>(1 + up_to(80)),
                                       .stream = up_to(3) > 0});
    plan.reset = up_to(1) == 0;
    switch (up_to(3)) {
      case 0:
        plan.leave_after_sent = up_to(plan.request.size());
        break;
      case 1:
        plan.leave_after_events = static_cast<std::int64_t>(1 + up_to(20));
        break;
      default:
        plan.leave_after = std::chrono::microseconds(up_to(300'000));
    }
    client.add(std::move(plan));
  }
  const auto start = Clock::now();
  QUIRE_RETURN_IF_ERROR(client.run(std::chrono::minutes(5)));
  const double elapsed_s = ms_between(start, Clock::now()) / 1e3;
  client.close_all();
  std::int64_t left = 0;
  std::int64_t answered = 0;
  std::int64_t other = 0;
  for (std::size_t i = 0; i < client.num_clients(); ++i) {
    const Ending ending = client.result(i).ending;
    ++(ending == Ending::kLeft ? left : ending == Ending::kAnswered ? answered : other);
  }

  const std::string names[] = {"vllm:num_requests_running", "vllm:num_requests_waiting",
                               "quire_blocks{state=\"used\"}", "quire_blocks_leaked"};
  json::object report = {{"clients", shape.clients},
                         {"left", left},
                         {"answered", answered},
                         {"other_endings", other},
                         {"elapsed_s", rounded(elapsed_s, 0.01)}};
  double settled_s = 0;
  for (; settled_s < 10; settled_s += 0.1) {
    double sum = 0;
    for (const std::string& name : names) {
      QUIRE_ASSIGN_OR_RETURN(const double value, target.metric(name));
      report[name] = value;
      sum += value;
    }
    if (sum == 0) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  report["settled_s"] = rounded(settled_s, 0.1);
  // The connection of the last question is closed a little later than the answer comes.
  std::this_thread::sleep_for(seconds(1));
  report["descriptors_before"] = before.num_descriptors;
  report["descriptors_after"] = target.stats().num_descriptors;
  return report;
}

Result<json::object> measure_slow_readers(const Target& target, const LoadShape& shape) {
  QUIRE_RETURN_IF_ERROR(warm_up(target));
  json::object report = {{"clients", shape.clients}, {"slow_clients", shape.slow_clients}};
  double alone_p99 = 0;
  for (const bool with_slow : {false, true}) {
    LoadClient client(target.host(), target.port(), kMaxOpen);
    std::int32_t key = 0;
    for (int i = 0; with_slow && i < shape.slow_clients; ++i) {
      ClientPlan slow = stream_plan(shape, key++);
      slow.byte_interval = seconds(1);
      client.add(std::move(slow), /*background=*/true);
    }
    if (with_slow) QUIRE_RETURN_IF_ERROR(client.run(seconds(0)));
    const std::size_t first = client.num_clients();
    for (int i = 0; i < shape.clients; ++i) client.add(stream_plan(shape, key++));
    QUIRE_RETURN_IF_ERROR(client.run(kPatience));
    std::vector<double> gaps = gaps_ms(client, first, static_cast<std::size_t>(shape.clients));
    const double p99 = statistics(gaps).p99;
    add_percentiles(report, with_slow ? "gap_beside_slow" : "gap_alone", std::move(gaps));
    if (with_slow) {
      report["p99_ratio"] = rounded(p99 / alone_p99, 0.001);
    } else {
      alone_p99 = p99;
    }
  }
  return report;
}

Result<json::object> measure_saturation(const Target& target, const LoadShape& shape) {
  QUIRE_RETURN_IF_ERROR(warm_up(target));
  LoadClient client(target.host(), target.port(), kMaxOpen);
  for (int i = 0; i < shape.clients; ++i) {
    ClientPlan plan = stream_plan(shape, i);
    plan.record_times = false;
    plan.num_requests = 1'000'000;
    client.add(std::move(plan));
  }
  // The first second does not count: connections, first requests.
  QUIRE_RETURN_IF_ERROR(client.run(seconds(1)));
  const std::int64_t events_before = client.num_events();
  const std::int64_t bytes_before = client.num_bytes();
  const ProcessStats before = target.stats();
  const auto start = Clock::now();
  QUIRE_RETURN_IF_ERROR(client.run(milliseconds(static_cast<std::int64_t>(shape.seconds * 1e3))));
  const double elapsed_s = ms_between(start, Clock::now()) / 1e3;
  const std::int64_t events = client.num_events() - events_before;
  const std::int64_t bytes = client.num_bytes() - bytes_before;
  const ProcessStats after = target.stats();
  client.close_all();
  json::object report = {
      {"clients", shape.clients},
      {"events_per_s", rounded(static_cast<double>(events) / elapsed_s, 1)},
      {"bytes_per_event", rounded(static_cast<double>(bytes) / static_cast<double>(events), 1)}};
  add_cpu(report, before, after, events, elapsed_s);
  return report;
}

}  // namespace quire::load
