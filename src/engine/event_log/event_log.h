// Writes down what an engine's scheduler is told and what it decides, so that the run can be
// replayed: `--event-log FILE`.
//
// The engine's thread encodes each call (some bytes a scheduled request) into a bounded buffer; a
// thread of its own writes that to the segment files. Each segment begins with a snapshot of the
// scheduler, so that it can be replayed without those before it. Where the disk is too slow or
// full, serving goes on: what does not fit is counted as lost, and a new segment, with a new
// snapshot, starts when there is room again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "core/scheduler_snapshot.h"
#include "engine/event_log/segment_file.h"
#include "engine/scheduler_listener.h"

namespace quire {

struct EventLogOptions {
  std::filesystem::path base;  // the files are BASE.000001 and so on
  // A segment ends when its records, the snapshot not counted, have reached this many bytes.
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::int64_t max_segments = 4;  // the oldest are removed, those of earlier runs too
  std::size_t max_buffer_bytes = std::size_t{8} << 20;
  std::chrono::milliseconds max_delay{50};          // until a record is handed to the system
  std::chrono::milliseconds first_retry{1000};      // after a failed write; doubles each time,
  std::chrono::milliseconds longest_retry{30'000};  // up to this
};

struct EventLogStats {
  std::uint64_t num_records = 0;  // written
  std::uint64_t num_lost = 0;
  std::uint64_t num_segments = 0;  // started
  std::uint64_t num_bytes = 0;     // written, snapshots included
  std::uint64_t snapshot_bytes = 0;
};

class EventLog final : public SchedulerListener {
 public:
  // Makes the first segment's file, so that a path that cannot be written is an error now
  // (kIoError) and not later. kInvalidArgument for options out of range.
  static Result<std::unique_ptr<EventLog>> open(EventLogOptions options);
  ~EventLog() override;  // writes what is left

  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool wants_pause() const override {
    return !recording_ || wants_snapshot_.load(std::memory_order_relaxed);
  }
  void between_steps(const Scheduler& scheduler, Instant now) override;
  void added(const AddRequest& request, Instant now, const Status& status) override;
  void aborted(RequestId request_id, Instant now, bool found) override;
  void paced(const StepPace& pace, Instant now) override;
  void proposed(RequestId request_id, DraftTreeView drafts, Instant now) override;
  void prefix_cache_reset(Instant now) override;
  void unpinned(PinId pin_id, Instant now, bool found) override;
  void tier_reported(const TierReport& report, Instant now) override;
  void scheduled(const SchedulerOutput& plan, Instant now) override;
  void updated(const ModelRunnerOutput& result, Instant now) override;
  void ended(const Status& reason, Instant now) override;

  EventLogStats stats() const;  // of what is written so far; any thread

 private:
  // What the engine hands over: records, after a snapshot where a segment is to begin.
  struct Piece {
    std::unique_ptr<const SchedulerSnapshot> snapshot;
    Instant time{};              // of the snapshot
    std::uint64_t num_lost = 0;  // before it
    std::uint64_t num_records = 0;
    std::vector<std::uint8_t> records;
  };

  EventLog(EventLogOptions options, std::uint64_t run_id, std::uint64_t number,
           SegmentWriter segment);

  // Engine thread.
  Duration since_previous(Instant now);
  void append_scratch();
  Piece& new_piece();

  // Writer thread.
  void run();
  void write(const Piece& piece);
  void write_piece(const Piece& piece);
  Status start_segment(const Piece& piece);
  Status write_records(const Piece& piece);
  Status remove_old_segments();
  void fail(const Status& status, const Piece& piece);

  const EventLogOptions options_;
  const std::uint64_t run_id_;

  // Engine thread only.
  bool recording_ = false;  // false: records are lost until the next snapshot
  std::uint64_t num_lost_ = 0;
  Instant previous_{};
  std::vector<std::uint8_t> scratch_;

  // Set by the writer, looked at by the engine.
  std::atomic<bool> wants_snapshot_ = false;
  std::atomic<std::int64_t> retry_at_ = 0;  // nanoseconds of steady_clock; 0: nothing failed

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::uint8_t>> spare_;  // buffers to be filled again
  std::size_t buffered_bytes_ = 0;
  bool stopping_ = false;
  EventLogStats stats_;

  // Writer thread only.
  SegmentWriter segment_;
  std::uint64_t number_;            // of the segment
  std::uint64_t record_bytes_ = 0;  // in it
  bool asked_ = false;              // the engine, for the next one
  std::uint64_t num_dropped_ = 0;   // records that came while there was no segment
  std::uint64_t segment_lost_ = 0;  // records that the segment's header says are missing before it
  std::chrono::milliseconds retry_{0};
  std::vector<std::uint8_t> frame_;
  std::thread thread_;
};

}  // namespace quire
