// Bounds-checked reading of little-endian values from bytes that nobody vouches for.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace quire {

static_assert(std::endian::native == std::endian::little, "file formats here are little-endian");

// The value whose bytes begin at `data`, of any alignment.
template <typename T>
T load_le(const std::byte* data) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  // False, with nothing read, if fewer bytes remain.
  template <typename T>
  [[nodiscard]] bool read(T& out) {
    if (remaining() < sizeof(T)) return false;
    out = load_le<T>(bytes_.data() + offset_);
    offset_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool read_bytes(std::uint64_t count, std::span<const std::byte>& out) {
    if (remaining() < count) return false;
    out = bytes_.subspan(offset_, count);
    offset_ += count;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;  // <= bytes_.size()
};

}  // namespace quire
