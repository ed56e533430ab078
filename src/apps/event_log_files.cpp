#include "apps/event_log_files.h"

#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "engine/event_log/segments.h"

namespace quire {
namespace {

constexpr std::uint64_t kProgressRecords = 4096;

std::span<const std::uint8_t> bytes_of(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::vector<std::filesystem::path>> event_log_files(const std::filesystem::path& name) {
  std::error_code error;
  if (std::filesystem::is_regular_file(name, error)) return std::vector{name};
  QUIRE_ASSIGN_OR_RETURN(const auto segments, find_segments(name));
  if (segments.empty()) {
    return Status::not_found(
        fmt::format("there is no event log {0}, and no {0}.000001 or later", name.string()),
        "give the name that --event-log was given, or one of its files");
  }
  std::vector<std::filesystem::path> files;
  for (const SegmentFile& segment : segments) files.push_back(segment.path);
  return files;
}

Status replay_files(const std::vector<std::filesystem::path>& files, Replay& replay,
                    ReplayNotes& notes, const std::function<bool()>& stop,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  std::vector<MappedFile> mapped;
  for (const std::filesystem::path& path : files) {
    QUIRE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
    total += file.bytes().size();
    mapped.push_back(std::move(file));
  }
  for (const MappedFile& file : mapped) {
    const std::string name = file.path().string();
    QUIRE_ASSIGN_OR_RETURN(SegmentReader segment, SegmentReader::open(bytes_of(file), name));
    QUIRE_ASSIGN_OR_RETURN(const bool begun, segment.begin());
    if (!begun) {
      notes.push_back(fmt::format("{} ends before its first record", name));
      continue;
    }
    if (segment.header().num_lost > 0) {
      notes.push_back(fmt::format("{} records were lost before {}: the replay starts anew there",
                                  segment.header().num_lost, name));
    }
    QUIRE_RETURN_IF_ERROR(replay.begin_segment(segment));
    while (!replay.difference() && !stop()) {
      QUIRE_ASSIGN_OR_RETURN(const auto record, segment.next());
      if (!record) break;
      const Status status = replay.apply(*record);
      if (!status.ok()) return segment.damaged(status.message());
      if (replay.summary().num_records % kProgressRecords == 0) {
        progress(done + segment.offset(), total);
      }
    }
    if (replay.difference() || stop()) return {};
    if (segment.torn_at()) {
      notes.push_back(fmt::format("{}: byte {}: the last frame is cut off, and was dropped", name,
                                  *segment.torn_at()));
    }
    done += file.bytes().size();
  }
  return {};
}

}  // namespace quire
