// The hash by which the hub names a file's content.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

// A running hash of a file.
class FileHash {
 public:
  // What an entity tag of the hub says: 64 hexadecimal digits are the SHA-256 of a large file, 40
  // the SHA-1 that git has of a small one ("blob SIZE", a NUL, the content). nullopt for another
  // tag.
  static std::optional<FileHash> expecting(std::string_view etag, std::uint64_t size);

  FileHash(FileHash&&) noexcept;
  FileHash& operator=(FileHash&&) noexcept;
  ~FileHash();

  void restart();
  void add(std::string_view bytes);
  // Ends the hash and returns whether it is the expected one; restart() begins another.
  bool matches();

 private:
  struct Impl;
  explicit FileHash(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Its SHA-256 in hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace quire
