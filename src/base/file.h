// Files: memory maps for weights, bounded reads for everything small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/status.h"

namespace quire {

// A read-only memory map of a whole regular file. Movable; unmaps on destruction.
class MappedFile {
 public:
  // Errors: kNotFound (no such file), kIoError (not a regular file, or the system's reason).
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= data_ && byte < data_ + size_;
  }

  // Releases the pages of this part of the map, and those that were read with them: they stay in
  // the system's page cache, but count no more as this process's memory until they are read again.
  void release(std::span<const std::byte> part) const;
  const std::filesystem::path& path() const { return path_; }
  // When the file was last written, as of opening it: nanoseconds since 1970.
  std::int64_t modified_ns() const { return modified_ns_; }

 private:
  explicit MappedFile(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::int64_t modified_ns_ = 0;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as a string; kResourceExhausted if it is larger than `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace quire
