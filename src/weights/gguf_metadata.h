// The key-value part of a GGUF file (ggml/docs/gguf.md, versions 2 and 3). Values stay where they
// lie in the file; parsing checks every length against the bytes that remain and allocates nothing
// in proportion to a number that the file merely claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace quire {

class ByteCursor;

// Numbers are the format's.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u32", "string", ...
std::string_view gguf_type_name(GgufType type);

// One key and its value as encoded in the file: little-endian numbers, strings after a u64 length.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;  // of the value, or of each element of an array
  bool is_array = false;
  std::uint64_t count = 1;          // elements of an array
  std::span<const std::byte> data;  // all elements, without the array's own header
  std::uint64_t file_offset = 0;    // of `data`
};

// The value for people: "llama", "49152", "[49152 strings]"; strings are cut after `max_chars`
// bytes and control characters escaped.
std::string gguf_value_text(const GgufEntry& entry, std::size_t max_chars = 80);

// Limits, far above those of published models; beyond them a file is refused.
inline constexpr std::uint64_t kGgufMaxKeys = 65'536;
inline constexpr std::uint64_t kGgufMaxKeyBytes = 65'535;         // the specification's
inline constexpr std::uint64_t kGgufMaxStringBytes = 64U << 20U;  // also of each array element
inline constexpr std::uint64_t kGgufMaxArrayElements = 1U << 24U;

// Borrows the file's bytes.
class GgufMetadata {
 public:
  // Reads `count` entries at the cursor. Errors (kBadModel) name file, key and offset: a length or
  // count beyond the bytes that remain or beyond the limits above, a key twice, an unknown value
  // type, a bool that is neither 0 nor 1. Arrays of arrays are kUnimplemented.
  static Result<GgufMetadata> parse(ByteCursor& cursor, std::uint64_t count, std::string file);

  std::span<const GgufEntry> entries() const { return entries_; }  // in file order
  const GgufEntry* find(std::string_view key) const;               // nullptr if absent

  // nullopt if the key is absent; kBadModel naming file, key, the expected and the found type for a
  // value of another one. Integers of every width count as integers, and numbers of every type as
  // doubles; one that does not fit the result is an error.
  Result<std::optional<std::int64_t>> find_int(std::string_view key) const;
  Result<std::optional<double>> find_double(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string>> find_string(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> find_strings(std::string_view key) const;
  Result<std::optional<std::vector<float>>> find_floats(std::string_view key) const;
  Result<std::optional<std::vector<std::int32_t>>> find_ints(std::string_view key) const;

  // As find_*; an absent key is an error too.
  Result<std::int64_t> get_int(std::string_view key) const;
  Result<double> get_double(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;

 private:
  GgufMetadata() = default;
  Status missing(std::string_view key) const;
  Status type_error(const GgufEntry& entry, std::string_view expected) const;

  std::string file_;
  std::vector<GgufEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace quire
