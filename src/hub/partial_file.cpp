#include "hub/partial_file.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

Status system_refused(std::string_view what, const std::filesystem::path& path, int error) {
  const std::string message = fmt::format("cannot {} {}: {}", what, printable(path.string(), 400),
                                          std::generic_category().message(error));
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Status::io_error(message, is_full ? "make room; the same command goes on where this ended"
                                           : "allow it, or name another cache with HF_HOME");
}

}  // namespace

Result<PartialFile> PartialFile::open(const std::filesystem::path& path, std::uint64_t size,
                                      std::optional<FileHash> hash) {
  PartialFile file(path, std::move(hash));
  file.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return system_refused("write", path, errno);
  struct stat facts {};
  if (::fstat(file.descriptor_, &facts) != 0) return system_refused("read", path, errno);
  file.size_ = static_cast<std::uint64_t>(facts.st_size);
  if (file.size_ > size) QUIRE_RETURN_IF_ERROR(file.clear());
  QUIRE_RETURN_IF_ERROR(file.hash_content());
  return file;
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::move(other.path_)),
      hash_(std::move(other.hash_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status PartialFile::hash_content() {
  if (!hash_) return {};
  std::array<char, 1U << 16> buffer{};
  for (std::uint64_t at = 0; at < size_;) {
    const ssize_t got = ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return system_refused("read", path_, got < 0 ? errno : EIO);
    hash_->add({buffer.data(), static_cast<std::size_t>(got)});
    at += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status PartialFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_refused("write", path_, errno);
    const auto count = static_cast<std::size_t>(written);
    if (hash_) hash_->add(bytes.substr(0, count));
    size_ += count;
    bytes.remove_prefix(count);
  }
  return {};
}

Status PartialFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) return system_refused("write", path_, errno);
  size_ = 0;
  if (hash_) hash_->restart();
  return {};
}

bool PartialFile::matches() { return !hash_ || hash_->matches(); }

Status PartialFile::sync() {
  if (::fsync(descriptor_) != 0) return system_refused("write", path_, errno);
  return {};
}

}  // namespace quire
