#include "engine/event_log/segment_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

Status system_error(const std::filesystem::path& path, std::string_view action, int error) {
  return Status::io_error(fmt::format("the event log {} cannot be {}: {}", path.string(), action,
                                      std::generic_category().message(error)));
}

}  // namespace

Result<SegmentWriter> SegmentWriter::create(const std::filesystem::path& path) {
  SegmentWriter segment;
  segment.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (segment.descriptor_ < 0) return system_error(path, "created", errno);
  segment.path_ = path;
  return segment;
}

SegmentWriter::SegmentWriter(SegmentWriter&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

SegmentWriter& SegmentWriter::operator=(SegmentWriter&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  size_ = std::exchange(other.size_, 0);
  path_ = std::move(other.path_);
  return *this;
}

Status SegmentWriter::append(std::span<const std::uint8_t> bytes) {
  std::uint64_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const Status status = system_error(path_, "written", count < 0 ? errno : ENOSPC);
      // A frame that is left half is recognized as torn, so this may fail.
      if (written > 0 && ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) {
        ::lseek(descriptor_, static_cast<off_t>(size_), SEEK_SET);
      }
      return status;
    }
    written += static_cast<std::uint64_t>(count);
  }
  size_ += written;
  return {};
}

void SegmentWriter::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  size_ = 0;
}

void SegmentWriter::discard() {
  if (descriptor_ >= 0) ::unlink(path_.c_str());
  close();
}

}  // namespace quire
