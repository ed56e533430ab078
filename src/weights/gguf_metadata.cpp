#include "weights/gguf_metadata.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/printable.h"
#include "weights/byte_cursor.h"

namespace quire {
namespace {

constexpr std::uint32_t kTypeCount = 13;

// Bytes of a value; 0 for strings and arrays, whose size varies.
std::uint64_t fixed_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

bool is_number(GgufType type) { return fixed_bytes(type) != 0 && type != GgufType::kBool; }

bool is_integer(GgufType type) {
  return is_number(type) && type != GgufType::kF32 && type != GgufType::kF64;
}

// An integer value; nullopt if a u64 is too large.
std::optional<std::int64_t> load_integer(GgufType type, const std::byte* data) {
  switch (type) {
    case GgufType::kU8:
      return load_le<std::uint8_t>(data);
    case GgufType::kI8:
      return load_le<std::int8_t>(data);
    case GgufType::kU16:
      return load_le<std::uint16_t>(data);
    case GgufType::kI16:
      return load_le<std::int16_t>(data);
    case GgufType::kU32:
      return load_le<std::uint32_t>(data);
    case GgufType::kI32:
      return load_le<std::int32_t>(data);
    case GgufType::kI64:
      return load_le<std::int64_t>(data);
    case GgufType::kU64: {
      const auto value = load_le<std::uint64_t>(data);
      if (!std::in_range<std::int64_t>(value)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

double load_number(GgufType type, const std::byte* data) {
  if (type == GgufType::kF32) return static_cast<double>(load_le<float>(data));
  if (type == GgufType::kF64) return load_le<double>(data);
  if (type == GgufType::kU64) return static_cast<double>(load_le<std::uint64_t>(data));
  return static_cast<double>(load_integer(type, data).value_or(0));
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// "a u32", "an array of string".
std::string found_text(const GgufEntry& entry) {
  if (entry.is_array) return fmt::format("an array of {}", gguf_type_name(entry.type));
  return std::string(gguf_type_name(entry.type));
}

// Reads one entry after another; errors name the file, the key and the offset.
class Parser {
 public:
  Parser(ByteCursor& cursor, const std::string& file) : cursor_(cursor), file_(file) {}

  Result<GgufEntry> entry(std::uint64_t number) {
    where_ = fmt::format("key {}", number);
    GgufEntry entry;
    QUIRE_RETURN_IF_ERROR(read_string(kGgufMaxKeyBytes, "the name", entry.key));
    if (entry.key.empty()) return bad("its name is empty");
    where_ = fmt::format("key {}", printable(entry.key));
    QUIRE_RETURN_IF_ERROR(read_type(entry.type));
    if (entry.type == GgufType::kArray) QUIRE_RETURN_IF_ERROR(read_array_header(entry));
    entry.file_offset = cursor_.offset();
    QUIRE_RETURN_IF_ERROR(entry.type == GgufType::kString ? read_strings(entry)
                                                          : read_fixed(entry));
    return entry;
  }

 private:
  Status bad(std::string_view what) const {
    return Status::bad_model(
        fmt::format("{}: {} (before byte {}): {}", file_, where_, cursor_.offset(), what),
        "fetch or convert the model again");
  }

  Status too_short(std::string_view part, std::uint64_t needed) const {
    return bad(fmt::format("{} needs {} bytes, the file has {} more; it is truncated or damaged",
                           part, needed, cursor_.remaining()));
  }

  Status read_string(std::uint64_t max_bytes, std::string_view part, std::string_view& out) {
    std::uint64_t size = 0;
    if (!cursor_.read(size)) return too_short(part, sizeof(size));
    if (size > cursor_.remaining()) return too_short(part, size);
    if (size > max_bytes) {
      return bad(fmt::format("{} has {} bytes, at most {} are read", part, size, max_bytes));
    }
    std::span<const std::byte> bytes;
    if (!cursor_.read_bytes(size, bytes)) return too_short(part, size);
    out = as_text(bytes);
    return {};
  }

  Status read_type(GgufType& out) {
    std::uint32_t number = 0;
    if (!cursor_.read(number)) return too_short("the value type", sizeof(number));
    if (number >= kTypeCount) return bad(fmt::format("unknown value type {}", number));
    out = static_cast<GgufType>(number);
    return {};
  }

  Status read_array_header(GgufEntry& entry) {
    entry.is_array = true;
    QUIRE_RETURN_IF_ERROR(read_type(entry.type));
    if (entry.type == GgufType::kArray) {
      return Status::unimplemented(
          fmt::format("{}: {}: arrays of arrays are not supported", file_, where_));
    }
    if (!cursor_.read(entry.count)) return too_short("the array's length", sizeof(entry.count));
    if (entry.count > kGgufMaxArrayElements) {
      return bad(fmt::format("an array of {} elements, at most {} are read", entry.count,
                             kGgufMaxArrayElements));
    }
    return {};
  }

  Status read_fixed(GgufEntry& entry) {
    const auto size = checked_mul(entry.count, fixed_bytes(entry.type));
    if (!size || !cursor_.read_bytes(*size, entry.data)) {
      return too_short(entry.is_array ? fmt::format("the array of {}", entry.count) : "the value",
                       size.value_or(std::numeric_limits<std::uint64_t>::max()));
    }
    if (entry.type != GgufType::kBool) return {};
    for (const std::byte value : entry.data) {
      if (std::to_integer<unsigned>(value) > 1) {
        return bad(
            fmt::format("expected a bool of 0 or 1, found {}", std::to_integer<unsigned>(value)));
      }
    }
    return {};
  }

  // Leaves in `data` all strings with their lengths; for one string, its characters alone.
  Status read_strings(GgufEntry& entry) {
    std::string_view text;
    if (!entry.is_array) {
      QUIRE_RETURN_IF_ERROR(read_string(kGgufMaxStringBytes, "the string", text));
      entry.file_offset += sizeof(std::uint64_t);
      entry.data = std::as_bytes(std::span(text));
      return {};
    }
    ByteCursor start = cursor_;
    for (std::uint64_t i = 0; i < entry.count; ++i) {
      QUIRE_RETURN_IF_ERROR(read_string(kGgufMaxStringBytes, "an element of the array", text));
    }
    if (!start.read_bytes(cursor_.offset() - start.offset(), entry.data)) {
      return Status::internal("a cursor moved backwards");
    }
    return {};
  }

  ByteCursor& cursor_;
  const std::string& file_;
  std::string where_;
};

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  constexpr std::string_view kNames[kTypeCount] = {
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
  };
  return kNames[static_cast<std::uint32_t>(type)];
}

std::string gguf_value_text(const GgufEntry& entry, std::size_t max_chars) {
  if (entry.is_array) return fmt::format("[{} x {}]", entry.count, gguf_type_name(entry.type));
  const std::byte* data = entry.data.data();
  switch (entry.type) {
    case GgufType::kString:
      return printable(as_text(entry.data), max_chars);
    case GgufType::kBool:
      return load_le<std::uint8_t>(data) != 0 ? "true" : "false";
    case GgufType::kF32:
      return fmt::format("{}", load_le<float>(data));
    case GgufType::kF64:
      return fmt::format("{}", load_le<double>(data));
    case GgufType::kU64:
      return fmt::format("{}", load_le<std::uint64_t>(data));
    default:
      return fmt::format("{}", load_integer(entry.type, data).value_or(0));
  }
}

Result<GgufMetadata> GgufMetadata::parse(ByteCursor& cursor, std::uint64_t count,
                                         std::string file) {
  constexpr std::uint64_t kSmallestEntry = 8 + 1 + 4 + 1;  // name length, name, type, value
  if (count > kGgufMaxKeys || count > cursor.remaining() / kSmallestEntry) {
    return Status::bad_model(
        fmt::format("{}: the header claims {} keys; at most {} are read, and the {} bytes that "
                    "follow hold fewer than {}",
                    file, count, kGgufMaxKeys, cursor.remaining(),
                    cursor.remaining() / kSmallestEntry + 1),
        "the file is truncated or damaged: fetch it again");
  }
  GgufMetadata metadata;
  metadata.file_ = std::move(file);
  metadata.entries_.reserve(count);
  Parser parser(cursor, metadata.file_);
  for (std::uint64_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const GgufEntry entry, parser.entry(i));
    if (!metadata.index_.emplace(entry.key, metadata.entries_.size()).second) {
      return Status::bad_model(fmt::format("{}: the key {} appears twice, again before byte {}",
                                           metadata.file_, printable(entry.key), cursor.offset()),
                               "fetch or convert the model again");
    }
    metadata.entries_.push_back(entry);
  }
  return metadata;
}

const GgufEntry* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

Status GgufMetadata::missing(std::string_view key) const {
  return Status::bad_model(fmt::format("{}: the key {} is missing", file_, key),
                           "convert the model again with a current converter");
}

Status GgufMetadata::type_error(const GgufEntry& entry, std::string_view expected) const {
  return Status::bad_model(fmt::format("{}: {}: expected {}, found {}", file_, printable(entry.key),
                                       expected, found_text(entry)));
}

Status GgufMetadata::value_error(const GgufEntry& entry, std::string_view rule) const {
  return Status::bad_model(fmt::format("{}: {}: {}", file_, printable(entry.key), rule));
}

Result<std::optional<std::int64_t>> GgufMetadata::find_int(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::int64_t>();
  if (entry->is_array || !is_integer(entry->type)) return type_error(*entry, "an integer");
  const auto value = load_integer(entry->type, entry->data.data());
  if (!value) return value_error(*entry, gguf_value_text(*entry) + " is too large");
  return value;
}

Result<std::optional<double>> GgufMetadata::find_double(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<double>();
  if (entry->is_array || !is_number(entry->type)) return type_error(*entry, "a number");
  const double value = load_number(entry->type, entry->data.data());
  if (!std::isfinite(value)) return value_error(*entry, "the number is not finite");
  return std::optional<double>(value);
}

Result<std::optional<bool>> GgufMetadata::find_bool(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<bool>();
  if (entry->is_array || entry->type != GgufType::kBool) return type_error(*entry, "a bool");
  return std::optional<bool>(entry->data[0] != std::byte{0});
}

Result<std::optional<std::string>> GgufMetadata::find_string(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::string>();
  if (entry->is_array || entry->type != GgufType::kString) return type_error(*entry, "a string");
  return std::optional<std::string>(as_text(entry->data));
}

Result<std::optional<std::vector<std::string>>> GgufMetadata::find_strings(
    std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::vector<std::string>>();
  if (!entry->is_array || entry->type != GgufType::kString) {
    return type_error(*entry, "an array of string");
  }
  std::vector<std::string> values;
  values.reserve(entry->count);
  ByteCursor cursor(entry->data);
  std::uint64_t size = 0;
  std::span<const std::byte> bytes;
  while (cursor.read(size) && cursor.read_bytes(size, bytes)) values.emplace_back(as_text(bytes));
  return std::optional(std::move(values));
}

Result<std::optional<std::vector<float>>> GgufMetadata::find_floats(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::vector<float>>();
  if (!entry->is_array || !is_number(entry->type)) return type_error(*entry, "an array of numbers");
  const std::uint64_t step = fixed_bytes(entry->type);
  std::vector<float> values;
  values.reserve(entry->count);
  for (std::size_t at = 0; at < entry->data.size(); at += step) {
    const double value = load_number(entry->type, entry->data.data() + at);
    const bool fits = std::isinf(value) ||
                      std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    if (!fits) {
      return value_error(*entry,
                         fmt::format("element {} is {}, which no f32 holds", values.size(), value));
    }
    values.push_back(static_cast<float>(value));
  }
  return std::optional(std::move(values));
}

Result<std::optional<std::vector<std::int32_t>>> GgufMetadata::find_ints(
    std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::vector<std::int32_t>>();
  if (!entry->is_array || !is_integer(entry->type)) {
    return type_error(*entry, "an array of integers");
  }
  const std::uint64_t step = fixed_bytes(entry->type);
  std::vector<std::int32_t> values;
  values.reserve(entry->count);
  for (std::size_t at = 0; at < entry->data.size(); at += step) {
    const auto value = load_integer(entry->type, entry->data.data() + at);
    if (!value || !std::in_range<std::int32_t>(*value)) {
      return value_error(*entry, fmt::format("element {} does not fit an i32", values.size()));
    }
    values.push_back(static_cast<std::int32_t>(*value));
  }
  return std::optional(std::move(values));
}

Result<std::int64_t> GgufMetadata::get_int(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, find_int(key));
  if (!value) return missing(key);
  return *value;
}

Result<double> GgufMetadata::get_double(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, find_double(key));
  if (!value) return missing(key);
  return *value;
}

Result<std::string> GgufMetadata::get_string(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(auto value, find_string(key));
  if (!value) return missing(key);
  return *std::move(value);
}

}  // namespace quire
