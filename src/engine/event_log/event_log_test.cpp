#include "engine/event_log/event_log.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "engine/event_log/event_log_fixture.h"
#include "engine/event_log/reader.h"
#include "engine/event_log/recorded_run.h"
#include "engine/event_log/replay.h"
#include "engine/event_log/segments.h"

namespace quire {
namespace {

using namespace std::chrono_literals;
using test::EventLogTest;
using test::RecordedRun;
using testing::HasSubstr;

TEST_F(EventLogTest, AReplayIsIdentical) {
  auto log = open();
  RecordedRun run(*log, 1);
  for (int i = 0; i < 3000; ++i) run.round();
  run.end();
  log.reset();
  int num_ended = 0;
  Replay replay([&](const Request& request, Instant) {
    EXPECT_EQ(request.external_id().find("request-"), 0U);
    ++num_ended;
  });
  const Status status = replay_all(replay);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_FALSE(replay.difference()) << replay.difference()->what;
  const SchedulerStats stats = run.scheduler().stats();
  EXPECT_EQ(replay.scheduler()->stats(), stats);
  const ReplaySummary& summary = replay.summary();
  EXPECT_EQ(summary.num_runs, 1U);
  EXPECT_EQ(summary.num_steps, static_cast<std::uint64_t>(stats.num_steps));
  EXPECT_EQ(summary.num_added, static_cast<std::uint64_t>(stats.num_added));
  EXPECT_EQ(summary.num_preemptions, static_cast<std::uint64_t>(stats.num_preemptions));
  EXPECT_EQ(num_ended, stats.num_finished + stats.num_aborted);
  // The traffic reaches what it is meant to.
  EXPECT_GT(stats.num_preemptions, 50);
  EXPECT_GT(stats.num_aborted, 20);
  EXPECT_GT(summary.num_refused, 20U);
  EXPECT_EQ(replay.end_reason(), "the test is over");
}

TEST_F(EventLogTest, FilesAreForTheirOwnerAlone) {
  record(1);
  ASSERT_EQ(segments().size(), 1U);
  struct stat info {};
  ASSERT_EQ(::stat(segments()[0].path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(segments()[0].path.filename(), "log.000001");
}

TEST_F(EventLogTest, SegmentsAreBoundedAndFollowOneAnother) {
  options_.segment_bytes = 4000;
  options_.max_segments = 3;
  auto log = open();
  RecordedRun run(*log, 2);
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_segments >= 6; }));
  run.end();
  log.reset();
  ASSERT_EQ(segments().size(), 3U);
  EXPECT_GE(segments()[0].number, 4U);
  Replay replay;
  const Status status = replay_all(replay);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_FALSE(replay.difference()) << replay.difference()->what;
  EXPECT_EQ(replay.summary().num_states_compared, 2U);
  EXPECT_EQ(replay.scheduler()->stats(), run.scheduler().stats());

  // Another run goes on with the numbers, and the oldest file makes room for it.
  const std::uint64_t last = segments().back().number;
  record(10, 3);
  ASSERT_EQ(segments().size(), 3U);
  EXPECT_EQ(segments().back().number, last + 1);
  Replay both;
  ASSERT_TRUE(replay_all(both).ok());
  EXPECT_EQ(both.summary().num_runs, 2U);
  EXPECT_FALSE(both.difference());
}

TEST_F(EventLogTest, AMissingSegmentStartsAnew) {
  options_.segment_bytes = 4000;
  options_.max_segments = 100;
  auto log = open();
  RecordedRun run(*log, 2);
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_segments >= 4; }));
  log.reset();
  std::filesystem::remove(segments()[1].path);
  Replay replay;
  ASSERT_TRUE(replay_all(replay).ok());
  EXPECT_FALSE(replay.difference());
  EXPECT_EQ(replay.scheduler()->stats(), run.scheduler().stats());
}

// A disk that is full for a while: the engine's calls go on, the gap is counted, and recording
// starts again by itself.
TEST_F(EventLogTest, AFullDiskLeavesAGap) {
  (void)std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto log = open();
  RecordedRun run(*log, 4);
  // A first segment without records would be removed.
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_records > 0; }));
  rlimit small = before;
  small.rlim_cur = log->stats().num_bytes + 20'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto num_steps = run.scheduler().stats().num_steps;
  for (int i = 0; i < 2000; ++i) run.round();
  const bool begun_anew = run_until(run, [&] { return log->stats().num_segments >= 2; });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(begun_anew);  // which only a full disk makes it do so soon
  EXPECT_GE(run.scheduler().stats().num_steps, num_steps + 2000);
  const std::uint64_t num_records = log->stats().num_records;
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_records > num_records + 100; }));
  EXPECT_GT(log->stats().num_lost, 0U);
  log.reset();
  ASSERT_GE(segments().size(), 2U);
  Replay replay;
  const Status status = replay_all(replay);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_FALSE(replay.difference()) << replay.difference()->what;
  EXPECT_GT(replay.summary().num_lost, 0U);
  EXPECT_EQ(replay.scheduler()->stats(), run.scheduler().stats());
}

// Counts what a scheduler's listener is told, on its way to another.
class CountingListener final : public SchedulerListener {
 public:
  explicit CountingListener(SchedulerListener& next) : next_(next) {}
  void between_steps(const Scheduler& scheduler, Instant now) override {
    next_.between_steps(scheduler, now);
  }
  void added(const AddRequest& request, Instant now, const Status& status) override {
    ++num_records;
    next_.added(request, now, status);
  }
  void aborted(RequestId request_id, Instant now, bool found) override {
    ++num_records;
    next_.aborted(request_id, now, found);
  }
  void paced(const StepPace& pace, Instant now) override {
    ++num_records;
    next_.paced(pace, now);
  }
  void proposed(RequestId request_id, DraftTreeView drafts, Instant now) override {
    ++num_records;
    next_.proposed(request_id, drafts, now);
  }
  void prefix_cache_reset(Instant now) override {
    ++num_records;
    next_.prefix_cache_reset(now);
  }
  void unpinned(PinId pin_id, Instant now, bool found) override {
    ++num_records;
    next_.unpinned(pin_id, now, found);
  }
  void tier_reported(const TierReport& report, Instant now) override {
    ++num_records;
    next_.tier_reported(report, now);
  }
  void scheduled(const SchedulerOutput& plan, Instant now) override {
    ++num_records;
    next_.scheduled(plan, now);
  }
  void updated(const ModelRunnerOutput& result, Instant now) override {
    ++num_records;
    next_.updated(result, now);
  }
  void ended(const Status& reason, Instant now) override {
    ++num_records;
    next_.ended(reason, now);
  }

  std::uint64_t num_records = 0;

 private:
  SchedulerListener& next_;
};

// A disk with room for a snapshot and not for the records after it: those segments are thrown away
// with the count of lost records in their header, and still each record is in the files or counted.
TEST_F(EventLogTest, EveryRecordIsThereOrCounted) {
  (void)std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  options_.longest_retry = 20ms;
  // A segment that some records fit into is kept: on a busy machine all that are tried for.
  options_.max_segments = 1000;
  auto log = open();
  CountingListener counted(*log);
  RecordedRun run(counted, 6);
  for (int i = 0; i < 200; ++i) run.round();
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_records > 100; }));
  rlimit small = before;
  small.rlim_cur = log->stats().snapshot_bytes + 5'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::uint64_t num_segments = log->stats().num_segments;
  const bool tried = run_until(run, [&] { return log->stats().num_segments > num_segments + 3; });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(tried);
  const std::uint64_t num_records = log->stats().num_records;
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_records > num_records + 100; }));
  run.end();
  log.reset();
  Replay replay;
  const Status status = replay_all(replay);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_FALSE(replay.difference()) << replay.difference()->what;
  EXPECT_GT(replay.summary().num_lost, 0U);
  EXPECT_EQ(replay.summary().num_records + replay.summary().num_lost, counted.num_records);
}

// The same where the log's thread is too slow for its buffer.
TEST_F(EventLogTest, AFullBufferLeavesAGap) {
  options_.max_buffer_bytes = 2000;
  options_.max_delay = 20ms;
  auto log = open();
  RecordedRun run(*log, 5);
  for (int i = 0; i < 500; ++i) run.round();
  ASSERT_TRUE(run_until(run, [&] { return log->stats().num_segments >= 3; }));
  EXPECT_GT(log->stats().num_lost, 0U);
  log.reset();
  Replay replay;
  const Status status = replay_all(replay);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_FALSE(replay.difference());
  EXPECT_GT(replay.summary().num_lost, 0U);
}

TEST_F(EventLogTest, WhatCannotBeWrittenIsAnErrorAtOnce) {
  options_.base = folder_ / "missing" / "log";
  const auto log = EventLog::open(options_);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().code(), StatusCode::kIoError);
  EXPECT_THAT(log.status().message(), HasSubstr("missing"));
}

// Every flipped bit is found: none gives a replay that claims to be whole and identical.
TEST_F(EventLogTest, AFlippedBitIsAnError) {
  record(12);
  const std::vector<std::uint8_t> bytes = read(segments()[0].path);
  ASSERT_LT(bytes.size(), 4000U);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const std::uint8_t bit : {std::uint8_t{0x01}, std::uint8_t{0x80}}) {
      std::vector<std::uint8_t> damaged = bytes;
      damaged[i] ^= bit;
      Replay replay;
      const Status status = replay_one(damaged, replay);
      ASSERT_FALSE(status.ok()) << "byte " << i;
      if (i < 12) continue;  // magic number and version
      EXPECT_THAT(status.message(), HasSubstr("log: byte ")) << "byte " << i;
    }
  }
}

// A crash cuts a file off anywhere: what is whole is replayed.
TEST_F(EventLogTest, ATornEndIsDropped) {
  record(12);
  const std::vector<std::uint8_t> bytes = read(segments()[0].path);
  std::uint64_t num_torn = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Replay replay;
    bool torn = false;
    const Status status = replay_one(std::span(bytes).first(size), replay, &torn);
    ASSERT_TRUE(status.ok()) << size << ": " << status.to_string();
    ASSERT_FALSE(replay.difference()) << size;
    num_torn += torn ? 1 : 0;
  }
  EXPECT_GT(num_torn, bytes.size() - 50);  // but where a frame ends
}

// The records of one segment, with one change, written again.
std::vector<std::uint8_t> rewritten(std::span<const std::uint8_t> bytes,
                                    const std::function<void(EventRecord&)>& change) {
  SegmentReader segment = *SegmentReader::open(bytes, "log");
  EXPECT_TRUE(*segment.begin());
  std::vector<std::uint8_t> out = segment_start();
  append_header_frame(segment.header(), out);
  FrameReader frames = *FrameReader::open(bytes, "log");
  EXPECT_TRUE(frames.next().ok());
  append_frame(FrameKind::kSnapshot, (*frames.next())->content, out);
  std::vector<std::uint8_t> records;
  Instant previous = segment.header().time;
  const auto since = [&](Instant time) { return time - std::exchange(previous, time); };
  while (true) {
    std::optional<EventRecord> record = *segment.next();
    if (!record) break;
    change(*record);
    if (const auto* add = std::get_if<AddRecord>(&*record)) {
      encode_added(add->request, add->outcome, since(add->time), records);
    } else if (const auto* abort = std::get_if<AbortRecord>(&*record)) {
      encode_aborted(abort->request_id, abort->found, since(abort->time), records);
    } else if (const auto* plan = std::get_if<PlanRecord>(&*record)) {
      encode_plan(plan->plan, since(plan->time), records);
    } else if (const auto* result = std::get_if<ResultRecord>(&*record)) {
      ModelRunnerOutput output;
      for (const TokenId token : result->sampled) output.sampled.push_back({.token_id = token});
      EXPECT_TRUE(take_candidates(result->beams, output));
      encode_result(output, since(result->time), records);
    } else if (const auto* end = std::get_if<EndRecord>(&*record)) {
      encode_ended({StatusCode::kCancelled, end->reason}, since(end->time), records);
    } else if (const auto* paced = std::get_if<PaceRecord>(&*record)) {
      encode_paced(paced->pace, since(paced->time), records);
    } else if (const auto* proposed = std::get_if<DraftRecord>(&*record)) {
      encode_drafts(proposed->request_id, proposed->drafts.view(), since(proposed->time), records);
    } else if (const auto* reset = std::get_if<PrefixCacheResetRecord>(&*record)) {
      encode_prefix_cache_reset(since(reset->time), records);
    } else if (const auto* told = std::get_if<TierRecord>(&*record)) {
      encode_tier_report(told->report, since(told->time), records);
    } else if (const auto* unpin = std::get_if<UnpinRecord>(&*record)) {
      encode_unpinned(unpin->pin_id, unpin->found, since(unpin->time), records);
    }
  }
  append_frame(FrameKind::kRecords, records, out);
  return out;
}

TEST_F(EventLogTest, EveryRecordIsReadAsItWasWritten) {
  record(300);
  const auto bytes = read(segments()[0].path);
  std::array<int, std::variant_size_v<EventRecord>> kinds{};
  const auto again = rewritten(bytes, [&](EventRecord& record) { ++kinds[record.index()]; });
  EXPECT_EQ(rewritten(again, [](EventRecord&) {}), again);
  Replay replay;
  ASSERT_TRUE(replay_one(again, replay).ok());
  EXPECT_FALSE(replay.difference());
  for (const int count : kinds) EXPECT_GT(count, 0);
}

TEST_F(EventLogTest, AnotherPlanIsShownAtItsStep) {
  record(300);
  const auto changed = rewritten(read(segments()[0].path), [](EventRecord& record) {
    auto* plan = std::get_if<PlanRecord>(&record);
    if (plan != nullptr && plan->plan.step_id == 57) {
      ++plan->plan.scheduled.back().num_computed_tokens;
    }
  });
  Replay replay;
  ASSERT_TRUE(replay_one(changed, replay).ok());
  const auto& difference = replay.difference();
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->step_id, 57U);
  EXPECT_THAT(difference->what, HasSubstr("step 57"));
  ASSERT_EQ(difference->recorded.size(), difference->replayed.size());
  int num_other_lines = 0;
  for (std::size_t i = 0; i < difference->recorded.size(); ++i) {
    num_other_lines += difference->recorded[i] != difference->replayed[i] ? 1 : 0;
  }
  EXPECT_EQ(num_other_lines, 1);
  EXPECT_EQ(replay.summary().num_steps, 56U);
}

// A token that was never sampled ends its request: the next plan is another one.
TEST_F(EventLogTest, AnotherTokenShowsInALaterCall) {
  record(300);
  int num_results = 0;
  Instant changed_at{};
  const auto changed = rewritten(read(segments()[0].path), [&](EventRecord& record) {
    auto* result = std::get_if<ResultRecord>(&record);
    if (result == nullptr || result->sampled.empty() || ++num_results != 20) return;
    changed_at = result->time;
    for (TokenId& token : result->sampled) token = token == 3 ? 4 : 3;
  });
  Replay replay;
  ASSERT_TRUE(replay_one(changed, replay).ok());
  ASSERT_TRUE(replay.difference());
  EXPECT_GT(replay.difference()->time, changed_at);
}

TEST_F(EventLogTest, AnotherOutcomeOfAnAddOrAnAbortIsShown) {
  record(300);
  const auto bytes = read(segments()[0].path);
  const auto refused = rewritten(bytes, [](EventRecord& record) {
    auto* add = std::get_if<AddRecord>(&record);
    if (add != nullptr) add->outcome = StatusCode::kResourceExhausted;
  });
  Replay first;
  ASSERT_TRUE(replay_one(refused, first).ok());
  ASSERT_TRUE(first.difference());
  EXPECT_THAT(first.difference()->what, HasSubstr("RESOURCE_EXHAUSTED"));
  const auto absent = rewritten(bytes, [](EventRecord& record) {
    auto* abort = std::get_if<AbortRecord>(&record);
    if (abort != nullptr) abort->found = !abort->found;
  });
  Replay second;
  ASSERT_TRUE(replay_one(absent, second).ok());
  ASSERT_TRUE(second.difference());
  EXPECT_THAT(second.difference()->what, HasSubstr("aborted"));
}

// Inputs for tests/fuzz/fuzz_event_log.cpp, which says how to run this.
TEST_F(EventLogTest, DISABLED_WriteCorpus) {
  const char* corpus = std::getenv("QUIRE_CORPUS");
  ASSERT_NE(corpus, nullptr);
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream file(std::filesystem::path(corpus) / name, std::ios::binary);
    file << bytes;
    ASSERT_TRUE(file.good());
  };
  for (const int num_rounds : {1, 5, 30, 150}) {
    std::filesystem::remove(segment_path(options_.base, 1));
    record(num_rounds, static_cast<std::uint64_t>(num_rounds));
    const std::string file = *read_file(segments()[0].path, 1 << 20);
    write("file_" + std::to_string(num_rounds), std::string(1, '\0') + file);
    std::string contents(3, '\1');
    FrameReader frames = *FrameReader::open(bytes_of(file), "log");
    while (const auto frame = *frames.next()) {
      if (frame->kind == FrameKind::kHeader) continue;
      if (frame->kind == FrameKind::kSnapshot) {
        contents[1] = static_cast<char>(frame->content.size());
        contents[2] = static_cast<char>(frame->content.size() >> 8);
      }
      contents.append(frame->content.begin(), frame->content.end());
    }
    write("contents_" + std::to_string(num_rounds), contents);
  }
}

}  // namespace
}  // namespace quire
