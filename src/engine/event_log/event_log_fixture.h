// For the tests of event logs: a log in a folder of its own, runs that are recorded in it, and its
// replay.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "engine/event_log/event_log.h"
#include "engine/event_log/reader.h"
#include "engine/event_log/recorded_run.h"
#include "engine/event_log/replay.h"
#include "engine/event_log/segments.h"

namespace quire::test {

using namespace std::chrono_literals;

class EventLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "event_log_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    options_.base = folder_ / "log";
    options_.max_delay = 1ms;
    options_.first_retry = 5ms;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<EventLog> open() {
    auto log = EventLog::open(options_);
    EXPECT_TRUE(log.ok()) << log.status().to_string();
    return log.ok() ? std::move(*log) : nullptr;
  }

  // Runs until `done`, at most two minutes, and lets the log's thread have its turns.
  static bool run_until(RecordedRun& run, const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + 2min;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      for (int i = 0; i < 20; ++i) run.round();
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  void record(int num_rounds, std::uint64_t seed = 1) {
    auto log = open();
    RecordedRun run(*log, seed);
    for (int i = 0; i < num_rounds; ++i) run.round();
    run.end();
  }

  std::vector<SegmentFile> segments() const { return *find_segments(options_.base); }

  static std::vector<std::uint8_t> read(const std::filesystem::path& path) {
    const std::string text = *read_file(path, std::uint64_t{1} << 30);
    return {text.begin(), text.end()};
  }

  static std::span<const std::uint8_t> bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  }

  static Status replay_one(std::span<const std::uint8_t> bytes, Replay& replay,
                           bool* torn = nullptr) {
    QUIRE_ASSIGN_OR_RETURN(SegmentReader segment, SegmentReader::open(bytes, "log"));
    QUIRE_ASSIGN_OR_RETURN(const bool begun, segment.begin());
    if (begun) {
      QUIRE_RETURN_IF_ERROR(replay.begin_segment(segment));
      while (true) {
        QUIRE_ASSIGN_OR_RETURN(const auto record, segment.next());
        if (!record) break;
        QUIRE_RETURN_IF_ERROR(replay.apply(*record));
      }
    }
    if (torn != nullptr) *torn = !begun || segment.torn_at().has_value();
    return {};
  }

  // All segments, one after the other.
  Status replay_all(Replay& replay) const {
    for (const SegmentFile& segment : segments()) {
      QUIRE_RETURN_IF_ERROR(replay_one(read(segment.path), replay));
    }
    return {};
  }

  std::filesystem::path folder_;
  EventLogOptions options_;
};

}  // namespace quire::test
