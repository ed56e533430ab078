#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

// An open descriptor of a regular file and its size.
struct OpenFile {
  int fd = -1;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
};

Result<OpenFile> open_regular(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return Status::not_found(fmt::format("no file {}", path.string()), "check the path");
    }
    return Status::io_error(fmt::format("cannot open {}: {}", path.string(), strerror(error)));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status::io_error(fmt::format("{} is not a regular file", path.string()));
  }
  return OpenFile{fd, static_cast<std::uint64_t>(info.st_size),
                  std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const OpenFile file, open_regular(path));
  MappedFile mapped(path);
  mapped.modified_ns_ = file.modified_ns;
  if (file.size == 0) {
    ::close(file.fd);
    return mapped;
  }
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  const int error = errno;
  ::close(file.fd);
  if (data == MAP_FAILED) {
    return Status::io_error(fmt::format("cannot map {}: {}", path.string(), strerror(error)));
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = file.size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      modified_ns_(other.modified_ns_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  // One fault maps neighbours that the page cache has, up to what one page table spans: they go
  // too, or they would add up to a good part of the file. Who still reads them faults once more.
  constexpr std::uintptr_t kPage = 4096;
  constexpr std::uintptr_t kTable = 512 * kPage;
  const auto base = reinterpret_cast<std::uintptr_t>(data_);
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const auto first = std::max(begin / kTable * kTable, base);
  const auto last = std::min((begin + part.size() + kTable - 1) / kTable * kTable, base + size_);
  // Advice: where it fails the pages stay. The kernel rounds the length up to whole pages.
  (void)::madvise(const_cast<std::byte*>(data_) + (first - base), last - first, MADV_DONTNEED);
}

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const OpenFile file, open_regular(path));
  if (file.size > max_bytes) {
    ::close(file.fd);
    return Status::resource_exhausted(
        fmt::format("{} has {} bytes; at most {} are read", path.string(), file.size, max_bytes));
  }
  std::string text(file.size, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  const int error = errno;
  ::close(file.fd);
  if (done != text.size()) {
    return Status::io_error(fmt::format("cannot read {}: {} of {} bytes ({})", path.string(), done,
                                        text.size(), strerror(error)));
  }
  return text;
}

}  // namespace quire
