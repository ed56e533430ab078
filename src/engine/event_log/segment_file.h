// One segment of an event log while it is written. What a failed write left behind is cut off, so
// that the file ends with a whole frame.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/status.h"

namespace quire {

class SegmentWriter {
 public:
  // Makes the file, which must not be there, for its owner alone: it has prompts. kIoError with
  // the system's reason.
  static Result<SegmentWriter> create(const std::filesystem::path& path);

  SegmentWriter() = default;  // no file
  SegmentWriter(SegmentWriter&& other) noexcept;
  SegmentWriter& operator=(SegmentWriter&& other) noexcept;
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;
  ~SegmentWriter() { close(); }

  // All of it or, after an error, nothing.
  Status append(std::span<const std::uint8_t> bytes);
  void close();
  void discard();  // closes and removes the file

  bool is_open() const { return descriptor_ >= 0; }
  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::filesystem::path path_;
};

}  // namespace quire
