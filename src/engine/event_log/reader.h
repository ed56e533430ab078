// Reads one segment of an event log: its header, its snapshot, its records.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/scheduler_snapshot.h"
#include "engine/event_log/bytes.h"
#include "engine/event_log/frame.h"
#include "engine/event_log/records.h"

namespace quire {

class SegmentReader {
 public:
  // `name` is for messages; the bytes must outlive the reader. Errors as FrameReader::open().
  static Result<SegmentReader> open(std::span<const std::uint8_t> bytes, std::string name);

  // Reads header and snapshot. False: the file ends before them (a crash at its very start).
  Result<bool> begin();
  const SegmentHeader& header() const { return header_; }
  const SchedulerSnapshot& snapshot() const { return snapshot_; }

  // The next record; nullopt at the end. kInvalidArgument with the offset of the frame where the
  // bytes are damaged or say what cannot be.
  Result<std::optional<EventRecord>> next();
  // Where the last frame begins, if the end of the file cuts it off; known at the end.
  std::optional<std::uint64_t> torn_at() const { return frames_.torn_at(); }

  std::uint64_t offset() const { return frame_offset_; }  // of the frame that is read
  Status damaged(std::string_view what) const { return frames_.damaged(frame_offset_, what); }

 private:
  explicit SegmentReader(FrameReader frames) : frames_(std::move(frames)) {}

  FrameReader frames_;
  SegmentHeader header_;
  SchedulerSnapshot snapshot_;
  std::uint64_t frame_offset_ = 0;
  ByteReader records_{{}};
  Instant time_{};
};

}  // namespace quire
