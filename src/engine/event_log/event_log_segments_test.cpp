// Segments by themselves: each begins with all that its replay needs.
#include "engine/event_log/event_log_fixture.h"

namespace quire::test {
namespace {

// Beams, drafts, preempted requests: whatever a segment begins with, what follows is the same.
TEST_F(EventLogTest, EverySegmentReplaysByItself) {
  options_.segment_bytes = 20'000;
  options_.max_segments = 1000;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    options_.base = folder_ / ("log" + std::to_string(seed));
    auto log = open();
    RecordedRun run(*log, seed);
    ASSERT_TRUE(run_until(run, [&] { return log->stats().num_segments > 5; }));
    run.end();
    log.reset();
    Replay together;
    const Status status = replay_all(together);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_FALSE(together.difference()) << "seed " << seed << ": " << together.difference()->what;
    for (const SegmentFile& segment : segments()) {
      Replay alone;
      ASSERT_TRUE(replay_one(read(segment.path), alone).ok());
      ASSERT_FALSE(alone.difference()) << "seed " << seed << ": " << alone.difference()->what;
    }
  }
}

}  // namespace
}  // namespace quire::test
