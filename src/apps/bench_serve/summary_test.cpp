#include "apps/bench_serve/summary.h"

#include <gtest/gtest.h>

#include "apps/bench_serve/report.h"
#include "apps/bench_serve/report_html.h"

namespace quire::bench {
namespace {

// Arrives at `intended`; first text after `ttft`, then `tokens` - 1 at `gap`.
RequestRecord answered(double intended, double ttft, double gap, std::int64_t tokens) {
  RequestRecord request;
  request.outcome = Outcome::kCompleted;
  request.usage_given = true;
  request.intended = intended;
  request.started = intended;
  request.first_text = intended + ttft;
  request.last_text = request.first_text + gap * static_cast<double>(tokens - 1);
  request.ended = request.last_text;
  request.prompt_tokens = 10;
  request.output_tokens = tokens;
  request.text_events = tokens;
  return request;
}

RequestRecord failed(double intended, double after, std::int64_t text_events) {
  RequestRecord request;
  request.outcome = Outcome::kFailed;
  request.intended = intended;
  request.started = intended;
  request.ended = intended + after;
  request.text_events = text_events;
  return request;
}

RunRecord some_run() {
  RunRecord run;
  run.request_rate = 4;
  run.duration = 2;
  for (int i = 0; i < 10; ++i) run.requests.push_back(answered(0.1 * i, 0.1 * (i + 1), 0.02, 5));
  run.requests.push_back(failed(0.5, 0.1, 3));
  run.requests.push_back(failed(0.5, 0.1, 0));
  run.requests.emplace_back();
  run.failures.add(FailureKind::kHttpStatus, "HTTP 503: <full>");
  run.failures.add(FailureKind::kBrokenStream, "closed");
  return run;
}

TEST(Summary, CountsEveryRequestOnce) {
  const Summary summary = summarize(some_run(), {});
  EXPECT_EQ(summary.planned, 13);
  EXPECT_EQ(summary.completed, 10);
  EXPECT_EQ(summary.failed, 2);
  EXPECT_EQ(summary.not_sent, 1);
  EXPECT_EQ(summary.completed + summary.failed + summary.unfinished + summary.not_sent,
            summary.planned);
  EXPECT_EQ(summary.lost_text_events, 3);
  EXPECT_EQ(summary.output_tokens, 50);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_s(), 25);
  EXPECT_DOUBLE_EQ(summary.total_tokens_per_s(), 75);
  EXPECT_DOUBLE_EQ(summary.requests_per_s(), 5);
  EXPECT_FALSE(summary.good.has_value());
}

TEST(Summary, PercentilesInterpolateBetweenRanks) {
  const Summary summary = summarize(some_run(), {});
  // 0.1, 0.2, ..., 1.0
  EXPECT_NEAR(summary.ttft.mean, 0.55, 1e-9);
  EXPECT_NEAR(summary.ttft.p50, 0.55, 1e-9);
  EXPECT_NEAR(summary.ttft.p90, 0.91, 1e-9);
  EXPECT_NEAR(summary.ttft.p95, 0.955, 1e-9);
  EXPECT_NEAR(summary.ttft.p99, 0.991, 1e-9);
  EXPECT_NEAR(summary.tpot.p99, 0.02, 1e-9);
}

TEST(Summary, PeakConcurrencyIsThatOfRequestsInFlight) {
  RunRecord run;
  run.requests = {answered(0, 1, 0, 1), answered(0.5, 1, 0, 1), answered(1, 1, 0, 1)};
  EXPECT_EQ(summarize(run, {}).peak_concurrency, 2);
}

TEST(Summary, TimesCountFromTheIntendedArrival) {
  RequestRecord request = answered(1, 0.5, 0.1, 3);
  request.started = 1.4;  // it waited for a slot
  EXPECT_DOUBLE_EQ(request.ttft(), 0.5);
  EXPECT_NEAR(request.e2el(), 0.7, 1e-12);
  EXPECT_NEAR(*request.tpot(), 0.1, 1e-12);
  EXPECT_FALSE(answered(0, 1, 0, 1).tpot().has_value());
}

TEST(Goodput, CountsWhatKeepsEveryObjective) {
  Objectives objectives;
  objectives.ttft = 0.35;
  EXPECT_EQ(summarize(some_run(), objectives).good, 3);
  objectives.tpot = 0.01;
  EXPECT_EQ(summarize(some_run(), objectives).good, 0);
  objectives = {.ttft = 10, .tpot = 1, .e2el = 0.2};
  EXPECT_EQ(summarize(some_run(), objectives).good, 1);
  EXPECT_FALSE(objectives.met_by(failed(0, 0.01, 1)));
  // One token has no time per token.
  objectives = {.ttft = std::nullopt, .tpot = 0.001, .e2el = std::nullopt};
  EXPECT_TRUE(objectives.met_by(answered(0, 0.1, 0, 1)));
}

TEST(Goodput, ReadsObjectives) {
  const std::vector<std::string> words = {"ttft:500", "tpot:50.5"};
  const auto objectives = parse_objectives(words);
  ASSERT_TRUE(objectives.ok());
  EXPECT_DOUBLE_EQ(*objectives->ttft, 0.5);
  EXPECT_DOUBLE_EQ(*objectives->tpot, 0.0505);
  EXPECT_FALSE(objectives->e2el.has_value());
  for (const char* word :
       {"ttft", "ttft:", "ttft:x", "ttft:0", "ttft:-1", "ttft:1s", "ttft:inf", "itl:5", ":5", ""}) {
    const std::vector<std::string> wrong = {word};
    EXPECT_FALSE(parse_objectives(wrong).ok()) << word;
  }
  const std::vector<std::string> twice = {"ttft:1", "ttft:2"};
  EXPECT_FALSE(parse_objectives(twice).ok());
}

Report some_report(int levels) {
  Report report = {.base_url = "http://x",
                   .endpoint = "/v1/completions",
                   .model = "a<b",
                   .dataset = "random",
                   .prompts = "random prompts",
                   .seed = 1,
                   .objectives = {},
                   .levels = {}};
  for (int i = 0; i < levels; ++i) {
    RunRecord run = some_run();
    run.request_rate = i + 1;
    const Summary summary = summarize(run, {});
    report.levels.push_back({.run = std::move(run), .summary = summary});
  }
  return report;
}

Provenance some_provenance() {
  return {.time = "2026-11-24 03:37 UTC",
          .version = "1.2.3",
          .machine = "two <cores>",
          .command = "quire bench serve"};
}

TEST(Report, KeepsFailuresInEveryForm) {
  for (const int levels : {1, 3}) {
    const Report report = some_report(levels);
    const std::string text = to_text(report);
    EXPECT_NE(text.find("http_status: HTTP 503: <full>"), std::string::npos) << text;
    EXPECT_NE(text.find("broken_stream: closed"), std::string::npos) << text;
    const std::string html = to_html(report, some_provenance());
    EXPECT_NE(html.find("HTTP 503: &lt;full&gt;"), std::string::npos);
    EXPECT_EQ(html.find("<full>"), std::string::npos);
    const json::object object = to_json(report);
    EXPECT_EQ(object.at("failed").to_number<int>(), 2);
    EXPECT_EQ(object.at("failures").get_array().size(), 2U);
    EXPECT_EQ(object.at("levels").get_array().size(), static_cast<std::size_t>(levels));
  }
  EXPECT_NE(to_text(some_report(1)).find("2 FAILED"), std::string::npos);
}

TEST(Report, ThePageHasNothingFromElsewhere) {
  const std::string html = to_html(some_report(3), some_provenance());
  EXPECT_NE(html.find("two &lt;cores&gt;"), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("against throughput"), std::string::npos);
  EXPECT_NE(html.find("a&lt;b"), std::string::npos);
  for (const char* foreign : {"<script", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  }
}

TEST(Report, SaysWhoCounted) {
  RunRecord run = some_run();
  EXPECT_NE(counting_note(summarize(run, {})).find("server's usage"), std::string::npos);
  for (RequestRecord& request : run.requests) request.usage_given = false;
  EXPECT_NE(counting_note(summarize(run, {})).find("no usage"), std::string::npos);
  run.requests[0].usage_given = true;
  EXPECT_NE(counting_note(summarize(run, {})).find("1 of 10"), std::string::npos);
}

TEST(Report, ARunWithoutAnAnswerIsStillReported) {
  RunRecord run;
  run.requests = {failed(0, 1, 0)};
  run.failures.add(FailureKind::kConnection, "Connection refused");
  Report report = some_report(1);
  report.levels = {{.run = run, .summary = summarize(run, {})}};
  EXPECT_NE(to_text(report).find("Connection refused"), std::string::npos);
  EXPECT_NE(to_html(report, some_provenance()).find("Connection refused"), std::string::npos);
}

TEST(FailureLog, IsBoundedAndLosesNone) {
  FailureLog log;
  for (int i = 0; i < 100; ++i) log.add(FailureKind::kServerError, std::to_string(i));
  log.add(FailureKind::kTimeout, "late");
  std::int64_t count = 0;
  for (const auto& cause : log.causes()) count += cause.count;
  EXPECT_EQ(count, 101);
  EXPECT_EQ(log.causes().size(), FailureLog::kMaxCauses + 2);
}

}  // namespace
}  // namespace quire::bench
