#include "tier/open_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace quire {

Status OpenFile::failed(const char* what) const {
  return Status::io_error(
      fmt::format("{} cannot be {}: {}", path_.string(), what, std::strerror(errno)));
}

Result<OpenFile> OpenFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  OpenFile file(fd, path);
  if (fd < 0) return file.failed("opened");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file.failed("looked at");
  if (!S_ISREG(status.st_mode)) return Status::io_error(path.string() + " is not a regular file");
  return file;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status OpenFile::lock() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return failed("locked");
  return Status::unavailable(fmt::format("{} is in use by another process", path_.string()));
}

Status OpenFile::resize(std::uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return failed("resized");
  if (bytes == 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0) return {};
  // Some file systems cannot promise room.
  return errno == EOPNOTSUPP || errno == ENOSYS ? Status() : failed("given its room");
}

Result<std::uint64_t> OpenFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return failed("looked at");
  return static_cast<std::uint64_t>(status.st_size);
}

Status OpenFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read");
    if (count == 0) return Status::io_error(fmt::format("{} ends too early", path_.string()));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status OpenFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

void OpenFile::read_ahead(std::uint64_t offset, std::uint64_t bytes) const {
  (void)::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                        POSIX_FADV_WILLNEED);
}

}  // namespace quire
