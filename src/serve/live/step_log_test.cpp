#include "serve/live/step_log.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "serve/live/latency_window.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

StepRecord record_of(StepId id, const std::vector<StepShare>& shares) {
  return {.step_id = id,
          .start = milliseconds(10 * id),
          .end = milliseconds(10 * id + 7),
          .shares = shares};
}

const std::vector<StepShare> kOneRow = {{.output_id = 9, .num_tokens = 1, .use = RowUse::kTokens}};

TEST(StepRecorder, KeepsNothingWhileNobodyLooks) {
  StepRecorder recorder;
  recorder.record(record_of(1, kOneRow));
  EXPECT_TRUE(recorder.take().steps.empty());
  recorder.watch(true);
  recorder.record(record_of(2, kOneRow));
  recorder.record(record_of(3, kOneRow));
  const auto taken = recorder.take();
  ASSERT_EQ(taken.steps.size(), 2U);
  EXPECT_EQ(taken.steps[0].step_id, 2U);
  EXPECT_EQ(taken.num_dropped, 0);
  EXPECT_TRUE(recorder.take().steps.empty());
  recorder.record(record_of(4, kOneRow));
  recorder.watch(false);
  recorder.record(record_of(5, kOneRow));
  EXPECT_TRUE(recorder.take().steps.empty());
}

TEST(StepRecorder, IsBoundedInStepsAndRows) {
  StepRecorder recorder;
  recorder.watch(true);
  for (StepId id = 1; id <= 600; ++id) recorder.record(record_of(id, kOneRow));
  auto taken = recorder.take();
  EXPECT_EQ(taken.steps.size(), StepRecorder::kMaxSteps);
  EXPECT_EQ(taken.steps.back().step_id, 600U);
  EXPECT_EQ(taken.num_dropped, 88);

  const std::vector<StepShare> many(10'000, kOneRow[0]);
  for (StepId id = 1; id <= 20; ++id) recorder.record(record_of(id, many));
  taken = recorder.take();
  EXPECT_EQ(taken.steps.size(), 6U);
  EXPECT_EQ(taken.num_dropped, 14);
}

TEST(StepJson, SaysSlotRequestAndTokensOfEachRow) {
  StepLog log;
  StepRecorder recorder;
  recorder.watch(true);
  recorder.record(record_of(1, {{.output_id = 5, .num_tokens = 12, .use = RowUse::kNothing},
                                {.output_id = 6, .num_tokens = 1, .use = RowUse::kTokens}}));
  // 7 starts with one token, the rest of its prompt was cached; 5 has ended, its row goes on.
  recorder.record(
      record_of(2, {{.output_id = 5, .num_tokens = 1, .use = RowUse::kTokens, .wanted = false},
                    {.output_id = 6, .num_tokens = 1, .use = RowUse::kTokens},
                    {.output_id = 7, .num_tokens = 1, .use = RowUse::kTokens}}));
  log.add(recorder.take());
  EXPECT_EQ(log.since(0).steps, "[1,10000,7000,0,5,12,1,6,0],[2,20000,7000,0,5,-1,1,6,0,2,7,1]");
}

TEST(StepLog, LetsEachViewerReadOnFromItsOwnPlace) {
  StepLog log;
  StepRecorder recorder;
  recorder.watch(true);
  recorder.record(record_of(1, kOneRow));
  log.add(recorder.take());
  const std::uint64_t first = log.end();
  recorder.record(record_of(2, kOneRow));
  log.add(recorder.take());
  EXPECT_EQ(log.since(first).steps, "[2,20000,7000,0,9,0]");
  EXPECT_EQ(log.since(0).steps, "[1,10000,7000,0,9,0],[2,20000,7000,0,9,0]");
  EXPECT_EQ(log.since(log.end()).steps, "");
  EXPECT_EQ(log.since(0).num_missed, 0);
}

TEST(StepLog, IsBoundedAndCountsWhatAViewerMissed) {
  StepLog log;
  StepRecorder recorder;
  recorder.watch(true);
  const std::vector<StepShare> rows(200, kOneRow[0]);
  for (int round = 0; round < 10; ++round) {
    for (StepId id = 1; id <= 100; ++id) recorder.record(record_of(id, rows));
    log.add(recorder.take());
  }
  const StepLog::Text text = log.since(0);
  EXPECT_LE(text.steps.size(), StepLog::kMaxBytes + StepLog::kMaxSteps);
  EXPECT_GT(text.num_missed, 0);
  const auto steps = parse_json("[" + text.steps + "]", "steps");
  ASSERT_TRUE(steps.ok());
  EXPECT_EQ(std::ssize(steps->as_array()) + text.num_missed, 1000);

  for (StepId id = 1; id <= 700; ++id) recorder.record(record_of(id, kOneRow));
  log.add(recorder.take());
  EXPECT_EQ(log.end(), 1700U);
  EXPECT_EQ(log.since(1000).num_missed, 700 - static_cast<int>(StepLog::kMaxSteps));
  EXPECT_EQ(log.begin(), 1700U - StepLog::kMaxSteps);
  EXPECT_EQ(log.since(log.begin()).num_missed, 0);
}

TEST(LatencyWindow, RanksWhatCameInTheLastSeconds) {
  LatencyWindow window;
  const Instant start = std::chrono::seconds(100);
  window.add(LatencyKind::kFirstToken, milliseconds(1), start);
  EXPECT_EQ(window.summary(LatencyKind::kFirstToken, start).count, 0);  // nobody looks
  window.watch(true);
  for (int i = 1; i <= 100; ++i) window.add(LatencyKind::kFirstToken, milliseconds(i), start);
  window.add(LatencyKind::kInterToken, milliseconds(7), start);
  const LatencySummary first = window.summary(LatencyKind::kFirstToken, start);
  EXPECT_EQ(first.count, 100);
  EXPECT_EQ(first.p50, milliseconds(50));
  EXPECT_EQ(first.p90, milliseconds(90));
  EXPECT_EQ(first.p99, milliseconds(99));
  EXPECT_EQ(first.max, milliseconds(100));
  EXPECT_EQ(window.summary(LatencyKind::kInterToken, start).p99, milliseconds(7));
  const Instant later = start + LatencyWindow::kLength + milliseconds(1);
  EXPECT_EQ(window.summary(LatencyKind::kFirstToken, later).count, 0);
}

TEST(LatencyWindow, IsBounded) {
  LatencyWindow window;
  window.watch(true);
  for (std::size_t i = 0; i < LatencyWindow::kMaxSamples + 10; ++i) {
    window.add(LatencyKind::kInterToken, milliseconds(1), Instant(0));
  }
  EXPECT_EQ(window.summary(LatencyKind::kInterToken, Instant(0)).count,
            static_cast<std::int64_t>(LatencyWindow::kMaxSamples));
}

}  // namespace
}  // namespace quire
