// A file that is read and written at offsets: what a BlockFile is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "base/status.h"

namespace quire {

class OpenFile {
 public:
  // For reading and writing, by this user alone; made if it is not there. kIoError.
  static Result<OpenFile> open(const std::filesystem::path& path);

  OpenFile(OpenFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  OpenFile& operator=(OpenFile&&) = delete;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  // Until the file is closed no other process gets the same. kUnavailable where one has it.
  Status lock();
  // Makes it of that size, with its room allocated on the disk where the file system can. kIoError.
  Status resize(std::uint64_t bytes);
  Result<std::uint64_t> size() const;

  // All of it, or kIoError; also where the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> bytes) const;
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // This part is read soon.
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  OpenFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  Status failed(const char* what) const;  // with errno's reason

  int fd_ = -1;
  std::filesystem::path path_;
};

}  // namespace quire
