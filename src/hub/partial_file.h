// The beginning of a file that is being fetched, on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "hub/file_hash.h"

namespace quire {

class PartialFile {
 public:
  // Opens `path`, made where it is absent, and hashes what it has. A file of more than `size` bytes
  // is another one: it begins anew. kIoError.
  static Result<PartialFile> open(const std::filesystem::path& path, std::uint64_t size,
                                  std::optional<FileHash> hash);
  PartialFile(PartialFile&& other) noexcept;
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile();

  std::uint64_t size() const { return size_; }

  // kIoError; what could be written counts.
  Status append(std::string_view bytes);
  // Throws away what there is.
  Status clear();
  // Whether the content has the expected hash; true where none is expected.
  bool matches();
  // Waits until the disk has it. kIoError.
  Status sync();

 private:
  PartialFile(std::filesystem::path path, std::optional<FileHash> hash)
      : path_(std::move(path)), hash_(std::move(hash)) {}
  Status hash_content();

  std::filesystem::path path_;
  std::optional<FileHash> hash_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace quire
