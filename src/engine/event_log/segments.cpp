#include "engine/event_log/segments.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace quire {

std::filesystem::path segment_path(const std::filesystem::path& base, std::uint64_t number) {
  return base.string() + fmt::format(".{:06}", number);
}

Result<std::vector<SegmentFile>> find_segments(const std::filesystem::path& base) {
  const std::filesystem::path folder = base.has_parent_path() ? base.parent_path() : ".";
  const std::string prefix = base.filename().string() + ".";
  std::vector<SegmentFile> segments;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    SegmentFile segment{.path = at->path(), .number = 0};
    const char* begin = name.data() + prefix.size();
    const char* const last = name.data() + name.size();
    const auto [stop, failure] = std::from_chars(begin, last, segment.number);
    // Exactly as segment_path() writes it.
    if (failure != std::errc() || stop != last ||
        segment_path(base, segment.number).filename() != name) {
      continue;
    }
    segments.push_back(std::move(segment));
  }
  if (error) {
    return Status::io_error(
        fmt::format("the folder {} cannot be read: {}", folder.string(), error.message()));
  }
  std::ranges::sort(segments, {}, &SegmentFile::number);
  return segments;
}

}  // namespace quire
