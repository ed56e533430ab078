// The bytes of a segment of an event log: a magic number and a version, then frames. Each frame has
// its size and checksums of its header and of its content, so that what a crash cut off and what a
// disk damaged are told apart: the first ends in the middle of a frame, the second fails a
// checksum.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace quire {

inline constexpr std::uint32_t kEventLogVersion = 14;

enum class FrameKind : std::uint8_t { kHeader = 1, kSnapshot, kRecords };

// The first frame of every segment.
struct SegmentHeader {
  std::uint64_t run_id = 0;    // of the engine's run; segments of one run belong together
  std::uint64_t number = 0;    // counts on from segment to segment
  std::uint64_t num_lost = 0;  // records that are missing between the segment before and this one
  std::int64_t created_unix_ns = 0;
  Instant time{};  // of the snapshot that follows, on the engine's clock
};

std::vector<std::uint8_t> segment_start();  // magic number and version
// Appends a frame to `out`.
void append_frame(FrameKind kind, std::span<const std::uint8_t> content,
                  std::vector<std::uint8_t>& out);
void append_header_frame(const SegmentHeader& header, std::vector<std::uint8_t>& out);

struct Frame {
  FrameKind kind = FrameKind::kHeader;
  std::uint64_t offset = 0;  // in the file
  std::span<const std::uint8_t> content;
};

// Walks over the frames of one segment.
class FrameReader {
 public:
  // `name` is for messages. kInvalidArgument where the bytes are no event log; kUnimplemented for a
  // version that this program does not know. The bytes must outlive the reader.
  static Result<FrameReader> open(std::span<const std::uint8_t> bytes, std::string name);

  // The next frame, nullopt at the end; kInvalidArgument with the offset where a checksum fails.
  Result<std::optional<Frame>> next();
  // Where the frame begins that the end of the file cuts off; known once next() gave nullopt.
  std::optional<std::uint64_t> torn_at() const { return torn_at_; }

  Status damaged(std::uint64_t offset, std::string_view what) const;

 private:
  FrameReader(std::span<const std::uint8_t> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  std::span<const std::uint8_t> bytes_;
  std::string name_;
  std::uint64_t offset_ = 0;
  std::optional<std::uint64_t> torn_at_;
};

Result<SegmentHeader> decode_header(const FrameReader& reader, const Frame& frame);

}  // namespace quire
