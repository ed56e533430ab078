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
  explicit ByteCursor(std::span<const std::byte> bytes) : ByteCursor(bytes, bytes.size()) {}
  // Over the beginning of `whole` bytes, the others of which are not there.
  ByteCursor(std::span<const std::byte> bytes, std::uint64_t whole)
      : bytes_(bytes), whole_(whole) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return whole_ - offset_; }
  // Whether a read has failed that bytes which are not there would have served.
  bool ran_out() const { return ran_out_; }

  // False, with nothing read, if fewer bytes remain or are there.
  template <typename T>
  [[nodiscard]] bool read(T& out) {
    if (!has(sizeof(T))) return false;
    out = load_le<T>(bytes_.data() + offset_);
    offset_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool read_bytes(std::uint64_t count, std::span<const std::byte>& out) {
    if (!has(count)) return false;
    out = bytes_.subspan(offset_, count);
    offset_ += count;
    return true;
  }

 private:
  bool has(std::uint64_t count) {
    if (bytes_.size() - offset_ >= count) return true;
    ran_out_ = ran_out_ || remaining() >= count;
    return false;
  }

  std::span<const std::byte> bytes_;
  std::uint64_t whole_;
  std::size_t offset_ = 0;  // <= bytes_.size()
  bool ran_out_ = false;
};

}  // namespace quire
