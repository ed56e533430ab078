#include "weights/packed_file.h"

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie here");

constexpr std::array<char, 8> kMagic = {'q', 'u', 'i', 'r', 'e', 'p', 'a', 'k'};
constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kAlignment = 4096;
constexpr std::uint64_t kPieceBytes = 1U << 20;

struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t index_offset = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_checksum = 0;
};
static_assert(sizeof(Head) == 40);

std::uint64_t hash(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

// The checksums of several matrices at once: small ones would leave threads idle.
std::vector<std::uint64_t> checksums(std::span<const PackedMatrix> matrices, ThreadPool& pool) {
  struct Piece {
    const std::uint8_t* data;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  for (const PackedMatrix& matrix : matrices) {
    for (std::uint64_t at = 0; at < matrix.data.size(); at += kPieceBytes) {
      pieces.push_back(
          {matrix.data.data() + at, std::min<std::size_t>(kPieceBytes, matrix.data.size() - at)});
    }
  }
  std::vector<std::uint64_t> hashes(pieces.size());
  pool.parallel_for(std::ssize(pieces), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      hashes[i] = hash(pieces[i].data, pieces[i].bytes);
    }
  });
  std::vector<std::uint64_t> result;
  const std::uint64_t* first = hashes.data();
  for (const PackedMatrix& matrix : matrices) {
    const auto count = static_cast<std::size_t>(ceil_div(std::ssize(matrix.data), kPieceBytes));
    result.push_back(hash(first, count * sizeof(std::uint64_t)));
    first += count;
  }
  return result;
}

Status broken(const std::string& name, std::string_view why) {
  return Status::bad_model(fmt::format("{}: {}", name, why), "remove the file");
}

Result<std::uint64_t> read_size(const JsonReader& entry, std::string_view key) {
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t value, entry.get_int(key));
  if (value < 0) {
    return Status::bad_model(fmt::format("{}: {}: {} is negative", entry.where(), key, value));
  }
  return static_cast<std::uint64_t>(value);
}

Result<PackedMatrix> read_matrix(const json::value& value, std::span<const std::byte> bytes,
                                 const std::string& where) {
  if (!value.is_object()) return broken(where, "the index has something else than objects");
  const JsonReader entry(value.get_object(), where);
  PackedMatrix matrix;
  QUIRE_ASSIGN_OR_RETURN(matrix.name, entry.get_string("name"));
  QUIRE_ASSIGN_OR_RETURN(matrix.layout, entry.get_string("layout"));
  QUIRE_ASSIGN_OR_RETURN(matrix.outputs, entry.get_int("outputs"));
  QUIRE_ASSIGN_OR_RETURN(matrix.inputs, entry.get_int("inputs"));
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t offset, read_size(entry, "offset"));
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t size, read_size(entry, "bytes"));
  QUIRE_ASSIGN_OR_RETURN(const std::string checksum, entry.get_string("checksum"));
  const char* end = checksum.data() + checksum.size();
  if (std::from_chars(checksum.data(), end, matrix.checksum, 16).ptr != end || checksum.empty()) {
    return broken(where, fmt::format("{} is not a checksum", printable(checksum)));
  }
  if (offset % std::uint64_t{kAlignment} != 0 || offset > bytes.size() ||
      size > bytes.size() - offset) {
    return broken(where, fmt::format("matrix {}: {} bytes at {} do not lie in {}",
                                     printable(matrix.name), size, offset, bytes.size()));
  }
  matrix.data = {reinterpret_cast<const std::uint8_t*>(bytes.data()) + offset, size};
  return matrix;
}

fs::path partial_path(const fs::path& path) { return path.string() + ".partial"; }

Status cannot_write(const fs::path& path, int error) {
  return Status::io_error(fmt::format("cannot write {}: {}", path.string(), strerror(error)));
}

bool is_same_file(int fd, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

std::string packed_file_name(std::string_view stem, std::string_view identity) {
  return fmt::format("{}-{:016x}.packed", stem, hash(identity.data(), identity.size()));
}

Result<PackedIndex> parse_packed_file(std::span<const std::byte> bytes, const std::string& name) {
  Head head;
  if (bytes.size() < sizeof(head)) return broken(name, "it is cut off");
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != kMagic || head.version != kVersion) {
    return broken(name, "it is not a file of packed weights of this version, or was not completed");
  }
  if (head.index_bytes > kPackedFileMaxIndexBytes || head.index_offset > bytes.size() ||
      head.index_bytes > bytes.size() - head.index_offset) {
    return broken(name, "it is cut off");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + head.index_offset,
                              head.index_bytes);
  if (hash(text.data(), text.size()) != head.index_checksum) {
    return broken(name, "its index is damaged");
  }
  return parse_packed_index(text, bytes, name);
}

Result<PackedIndex> parse_packed_index(std::string_view text, std::span<const std::byte> bytes,
                                       const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, name));
  if (!value.is_object()) return broken(name, "the index is no object");
  const JsonReader reader(value.get_object(), name);
  PackedIndex index;
  QUIRE_ASSIGN_OR_RETURN(index.key, reader.get_string("key"));
  const json::value* matrices = reader.find("matrices");
  if (matrices == nullptr || !matrices->is_array()) return reader.type_error("matrices", "a list");
  for (const json::value& item : matrices->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(auto matrix, read_matrix(item, bytes, name));
    index.matrices.push_back(std::move(matrix));
  }
  return index;
}

PackedFile::PackedFile(MappedFile mapping, PackedIndex index)
    : mapping_(std::move(mapping)), index_(std::move(index)) {
  for (std::size_t i = 0; i < index_.matrices.size(); ++i) {
    by_name_.emplace(index_.matrices[i].name, i);
  }
}

Result<PackedFile> PackedFile::open(const fs::path& path, ThreadPool& pool) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(PackedIndex index, parse_packed_file(mapping.bytes(), path.string()));
  const auto found = checksums(index.matrices, pool);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != index.matrices[i].checksum) {
      return broken(path.string(),
                    fmt::format("matrix {} is damaged", printable(index.matrices[i].name)));
    }
  }
  return PackedFile(std::move(mapping), std::move(index));
}

const PackedMatrix* PackedFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &index_.matrices[found->second];
}

Result<PackedFileWriter> PackedFileWriter::create(const fs::path& path, std::string key) {
  const fs::path partial = partial_path(path);
  const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_write(partial, errno);
  // Who has the lock writes. Who gets it from a writer that is done reads that one's file.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_same_file(fd, partial)) {
    ::close(fd);
    return Status::unavailable(fmt::format("another process writes {}", path.string()));
  }
  PackedFileWriter writer(fd, path, std::move(key));
  if (::ftruncate(fd, 0) != 0) return cannot_write(partial, errno);
  return writer;
}

PackedFileWriter::PackedFileWriter(int fd, fs::path path, std::string key)
    : fd_(fd), path_(std::move(path)), key_(std::move(key)), end_(sizeof(Head)) {}

PackedFileWriter::PackedFileWriter(PackedFileWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      key_(std::move(other.key_)),
      matrices_(std::move(other.matrices_)),
      end_(other.end_) {}

PackedFileWriter::~PackedFileWriter() {
  if (fd_ < 0) return;
  std::error_code error;
  fs::remove(partial_path(path_), error);
  ::close(fd_);
}

Status PackedFileWriter::write_at(std::uint64_t offset, const void* data,
                                  std::uint64_t bytes) const {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return cannot_write(partial_path(path_), n < 0 ? errno : ENOSPC);
    from += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::uint64_t>(n);
  }
  return {};
}

Status PackedFileWriter::add(const PackedMatrix& matrix, ThreadPool& pool) {
  const auto offset =
      static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(end_), kAlignment));
  QUIRE_RETURN_IF_ERROR(write_at(offset, matrix.data.data(), matrix.data.size()));
  matrices_.push_back(
      json::object{{"name", matrix.name},
                   {"layout", matrix.layout},
                   {"outputs", matrix.outputs},
                   {"inputs", matrix.inputs},
                   {"offset", offset},
                   {"bytes", matrix.data.size()},
                   {"checksum", fmt::format("{:x}", checksums({&matrix, 1}, pool)[0])}});
  end_ = offset + matrix.data.size();
  return {};
}

Status PackedFileWriter::commit() {
  const std::string text =
      json::serialize(json::object{{"key", key_}, {"matrices", std::move(matrices_)}});
  const Head head = {.index_offset = end_,
                     .index_bytes = text.size(),
                     .index_checksum = hash(text.data(), text.size())};
  QUIRE_RETURN_IF_ERROR(write_at(end_, text.data(), text.size()));
  QUIRE_RETURN_IF_ERROR(write_at(0, &head, sizeof(head)));
  end_ += text.size();
  // Not flushed to the disk: what a crash leaves of the file fails its checksums.
  std::error_code error;
  fs::rename(partial_path(path_), path_, error);
  if (error) return cannot_write(path_, error.value());
  ::close(std::exchange(fd_, -1));
  return {};
}

}  // namespace quire
