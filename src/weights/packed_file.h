// Matrices in the form that kernels read, kept in a file, so that the next start maps them in place
// of packing them again. The file knows neither layouts nor models: a matrix is a name, what its
// owner says of its form, and bytes.
//
// Numbers are little-endian:
//   "quirepak", u64 version, u64 index_offset, u64 index_bytes, u64 index_checksum   (40 bytes)
//   the matrices, each at a multiple of 4,096 bytes
//   the index, JSON: {"key": ..., "matrices": [{"name", "layout", "outputs", "inputs", "offset",
//   "bytes", "checksum"}]}, checksums in hexadecimal
// The first 40 bytes are written last. A checksum is XXH3 (64 bits, github.com/Cyan4973/xxHash); a
// matrix's is that of the checksums of its pieces of 1 MiB, so that threads share the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "tensor/thread_pool.h"

namespace quire {

inline constexpr std::uint64_t kPackedFileMaxIndexBytes = 64U << 20;

// "STEM-HASH.packed", the hash being of `identity`.
std::string packed_file_name(std::string_view stem, std::string_view identity);

struct PackedMatrix {
  std::string name;
  std::string layout;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::span<const std::uint8_t> data;  // borrowed
  std::uint64_t checksum = 0;          // as the index has it
};

struct PackedIndex {
  std::string key;
  std::vector<PackedMatrix> matrices;
};

// The contents of a file; the matrices borrow them, and their checksums are not looked at.
// kBadModel, with `name` for the file, for what is cut off or was not written by PackedFileWriter.
Result<PackedIndex> parse_packed_file(std::span<const std::byte> bytes, const std::string& name);

// The part of it that reads the index, `text`.
Result<PackedIndex> parse_packed_index(std::string_view text, std::span<const std::byte> bytes,
                                       const std::string& name);

class PackedFile {
 public:
  // Maps the file, reads all of it once, with all threads, and compares the checksums. Errors:
  // those of MappedFile::open and of parse_packed_file; kBadModel naming the matrix whose bytes are
  // not those that were written.
  static Result<PackedFile> open(const std::filesystem::path& path, ThreadPool& pool);

  const std::string& key() const { return index_.key; }
  std::uint64_t size_bytes() const { return mapping_.bytes().size(); }
  // nullptr where there is none. The bytes stay as long as the file, wherever it is moved.
  const PackedMatrix* find(std::string_view name) const;

 private:
  PackedFile(MappedFile mapping, PackedIndex index);

  MappedFile mapping_;
  PackedIndex index_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

// Writes such a file beside its place, as PATH.partial, which only a complete one leaves.
class PackedFileWriter {
 public:
  // kUnavailable where another process is writing the same file, kIoError where the system refuses.
  static Result<PackedFileWriter> create(const std::filesystem::path& path, std::string key);

  PackedFileWriter(PackedFileWriter&& other) noexcept;
  PackedFileWriter& operator=(PackedFileWriter&&) = delete;
  PackedFileWriter(const PackedFileWriter&) = delete;
  PackedFileWriter& operator=(const PackedFileWriter&) = delete;
  ~PackedFileWriter();  // without commit(): nothing is left

  // Appends a matrix; its checksum is computed. kIoError, after which commit() must not follow.
  Status add(const PackedMatrix& matrix, ThreadPool& pool);
  // Puts the file in its place, over another.
  Status commit();

  std::uint64_t size_bytes() const { return end_; }

 private:
  PackedFileWriter(int fd, std::filesystem::path path, std::string key);
  Status write_at(std::uint64_t offset, const void* data, std::uint64_t bytes) const;

  int fd_ = -1;
  std::filesystem::path path_;
  std::string key_;
  json::array matrices_;  // of the index
  std::uint64_t end_ = 0;
};

}  // namespace quire
