#include "engine/event_log/frame.h"

#include <algorithm>
#include <string_view>

#include <boost/crc.hpp>
#include <fmt/format.h>

#include "core/request_timeline.h"
#include "engine/event_log/bytes.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "QUIRELOG";
constexpr std::size_t kStartBytes = 12;        // magic number, version
constexpr std::size_t kFrameHeaderBytes = 13;  // kind, size, checksum of the content, of these

std::uint32_t read_u32(std::span<const std::uint8_t> bytes, std::size_t at) {
  return ByteReader(bytes.subspan(at)).bits<std::uint32_t>();
}

std::uint32_t checksum(std::span<const std::uint8_t> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

template <typename Archive, typename Header>
void visit_header(Archive& archive, Header& header) {
  archive(header.run_id);
  archive(header.number);
  archive(header.num_lost);
  archive(header.created_unix_ns);
  archive(header.time);
}

}  // namespace

std::vector<std::uint8_t> segment_start() {
  std::vector<std::uint8_t> out(kMagic.begin(), kMagic.end());
  ByteWriter(out).bits(kEventLogVersion);
  return out;
}

void append_frame(FrameKind kind, std::span<const std::uint8_t> content,
                  std::vector<std::uint8_t>& out) {
  const std::size_t begin = out.size();
  out.push_back(static_cast<std::uint8_t>(kind));
  ByteWriter writer(out);
  writer.bits(static_cast<std::uint32_t>(content.size()));
  writer.bits(checksum(content));
  writer.bits(checksum(std::span(out).subspan(begin)));
  out.insert(out.end(), content.begin(), content.end());
}

void append_header_frame(const SegmentHeader& header, std::vector<std::uint8_t>& out) {
  std::vector<std::uint8_t> content;
  ByteWriter writer(content);
  visit_header(writer, header);
  append_frame(FrameKind::kHeader, content, out);
}

Result<FrameReader> FrameReader::open(std::span<const std::uint8_t> bytes, std::string name) {
  FrameReader reader(bytes, std::move(name));
  const auto known = static_cast<std::ptrdiff_t>(std::min(bytes.size(), kMagic.size()));
  if (!std::equal(bytes.begin(), bytes.begin() + known, kMagic.begin())) {
    return Status::invalid_argument(reader.name_ + " is no event log of Quire");
  }
  if (bytes.size() < kStartBytes) return reader;  // cut off at once: no frame
  if (const std::uint32_t version = read_u32(bytes, kMagic.size()); version != kEventLogVersion) {
    return Status::unimplemented(fmt::format("{}: the event log has version {}, this program reads "
                                             "version {}",
                                             reader.name_, version, kEventLogVersion),
                                 "replay it with the version of Quire that wrote it");
  }
  reader.offset_ = kStartBytes;
  return reader;
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::uint64_t left = bytes_.size() - offset_;
  if (left < kFrameHeaderBytes) {
    if (left > 0) torn_at_ = offset_;
    return std::optional<Frame>();
  }
  const auto header = bytes_.subspan(offset_, kFrameHeaderBytes);
  if (read_u32(header, 9) != checksum(header.first(9))) {
    return damaged(offset_, "the frame's header fails its checksum");
  }
  const std::uint64_t size = read_u32(header, 1);
  if (size > left - kFrameHeaderBytes) {
    torn_at_ = offset_;
    return std::optional<Frame>();
  }
  Frame frame;
  frame.offset = offset_;
  frame.content = bytes_.subspan(offset_ + kFrameHeaderBytes, size);
  if (read_u32(header, 5) != checksum(frame.content)) {
    return damaged(offset_, "the frame's content fails its checksum");
  }
  if (header[0] < 1 || header[0] > static_cast<std::uint8_t>(FrameKind::kRecords)) {
    return damaged(offset_, "the frame's kind is unknown");
  }
  frame.kind = static_cast<FrameKind>(header[0]);
  offset_ += kFrameHeaderBytes + size;
  return std::optional(frame);
}

Status FrameReader::damaged(std::uint64_t offset, std::string_view what) const {
  return Status::invalid_argument(fmt::format("{}: byte {}: {}", name_, offset, what),
                                  "the file is damaged there; what comes before it is whole");
}

Result<SegmentHeader> decode_header(const FrameReader& reader, const Frame& frame) {
  SegmentHeader header;
  ByteReader bytes(frame.content);
  visit_header(bytes, header);
  if (frame.kind != FrameKind::kHeader || !bytes.ok() || bytes.size() > 0 ||
      !plausible(header.time)) {
    return reader.damaged(frame.offset, "the segment does not begin with its header");
  }
  return header;
}

}  // namespace quire
