#include "engine/event_log/reader.h"

#include <utility>

#include "engine/event_log/snapshot_codec.h"

namespace quire {

Result<SegmentReader> SegmentReader::open(std::span<const std::uint8_t> bytes, std::string name) {
  QUIRE_ASSIGN_OR_RETURN(FrameReader frames, FrameReader::open(bytes, std::move(name)));
  return SegmentReader(std::move(frames));
}

Result<bool> SegmentReader::begin() {
  QUIRE_ASSIGN_OR_RETURN(const auto header, frames_.next());
  if (!header) return false;
  QUIRE_ASSIGN_OR_RETURN(header_, decode_header(frames_, *header));
  QUIRE_ASSIGN_OR_RETURN(const auto frame, frames_.next());
  if (!frame) return false;
  frame_offset_ = frame->offset;
  if (frame->kind != FrameKind::kSnapshot) return damaged("a snapshot was to come here");
  auto snapshot = decode_snapshot(frame->content);
  if (!snapshot.ok()) return damaged(snapshot.status().message());
  snapshot_ = std::move(*snapshot);
  time_ = header_.time;
  return true;
}

Result<std::optional<EventRecord>> SegmentReader::next() {
  while (records_.size() == 0) {
    QUIRE_ASSIGN_OR_RETURN(const auto frame, frames_.next());
    if (!frame) return std::optional<EventRecord>();
    frame_offset_ = frame->offset;
    if (frame->kind != FrameKind::kRecords) return damaged("records were to come here");
    records_ = ByteReader(frame->content);
  }
  auto record = decode_record(records_, time_);
  if (!record) return damaged("the frame holds a record that cannot be");
  return record;
}

}  // namespace quire
