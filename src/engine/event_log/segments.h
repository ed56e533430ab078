// The files of an event log: BASE.000001, BASE.000002 and so on. Numbers go on from run to run, so
// that a restart does not overwrite what led to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/status.h"

namespace quire {

struct SegmentFile {
  std::filesystem::path path;
  std::uint64_t number = 0;
};

std::filesystem::path segment_path(const std::filesystem::path& base, std::uint64_t number);

// The segments of `base` that are there, in order. kIoError where the folder cannot be read.
Result<std::vector<SegmentFile>> find_segments(const std::filesystem::path& base);

}  // namespace quire
