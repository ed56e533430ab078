// Plain values to bytes and back. Integers are variable-length (7 bits a byte, the lowest first),
// so that small numbers, which most are, need one byte; floating point numbers are their bits, the
// lowest byte first. Types with fields are described once, by a function that visits them, for both
// directions:
//
//   template <typename Archive, typename T> void visit_point(Archive& archive, T& point) {
//     archive(point.x);
//     archive(point.y);
//   }
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.h"

namespace quire {

template <typename T>
concept PlainInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Appends to a vector, which must outlive it.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::uint8_t>& out) : out_(out) {}

  void varint(std::uint64_t value) {
    std::array<std::uint8_t, 10> bytes;
    std::size_t size = 0;
    for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<std::uint8_t>(value | 0x80);
    bytes[size++] = static_cast<std::uint8_t>(value);
    out_.insert(out_.end(), bytes.data(), bytes.data() + size);
  }
  // A difference, which may be negative.
  void difference(std::int64_t value) {
    varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void operator()(bool value) { out_.push_back(value ? 1 : 0); }
  template <PlainInteger T>
  void operator()(T value) {
    varint(static_cast<std::make_unsigned_t<T>>(value));
  }
  // Of fixed size, the lowest byte first.
  template <typename T>
  void bits(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  }
  void operator()(float value) { bits(std::bit_cast<std::uint32_t>(value)); }
  void operator()(double value) { bits(std::bit_cast<std::uint64_t>(value)); }
  void operator()(Duration value) { difference(value.count()); }
  void operator()(std::string_view value) {
    varint(value.size());
    out_.insert(out_.end(), value.begin(), value.end());
  }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <typename Enum>
  void enumeration(Enum value, Enum /*last*/) {
    out_.push_back(static_cast<std::uint8_t>(value));
  }
  template <typename Item, typename Visit>
  void list(const std::vector<Item>& items, Visit visit) {
    varint(items.size());
    for (const Item& item : items) visit(*this, item);
  }
  template <PlainInteger T>
  void operator()(const std::vector<T>& items) {
    varint(items.size());
    for (const T item : items) (*this)(item);
  }

 private:
  std::vector<std::uint8_t>& out_;
};

// Reads what a ByteWriter wrote, or any bytes. After the first value that is not there or cannot
// be, all are 0 and ok() is false: it is asked once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  std::size_t size() const { return bytes_.size(); }  // left
  void fail() {
    ok_ = false;
    bytes_ = {};
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = next();
      const std::uint64_t part = byte & 0x7FU;
      if (shift == 63 && part > 1) break;
      value |= part << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }
  std::int64_t difference() {
    const std::uint64_t value = varint();
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  // Of fixed size, the lowest byte first.
  template <typename T>
  T bits() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{next()} << (8 * i));
    return value;
  }
  // A number of things that need at least a byte each.
  std::size_t count() {
    const std::uint64_t count = varint();
    if (count <= bytes_.size()) return static_cast<std::size_t>(count);
    fail();
    return 0;
  }

  void operator()(bool& value) {
    const std::uint8_t byte = next();
    if (byte > 1) fail();
    value = byte == 1;
  }
  template <PlainInteger T>
  void operator()(T& value) {
    const std::uint64_t read = varint();
    if (read > std::numeric_limits<std::make_unsigned_t<T>>::max()) fail();
    value = ok_ ? static_cast<T>(read) : T{};
  }
  void operator()(float& value) { value = std::bit_cast<float>(bits<std::uint32_t>()); }
  void operator()(double& value) { value = std::bit_cast<double>(bits<std::uint64_t>()); }
  void operator()(Duration& value) { value = Duration(difference()); }
  void operator()(std::string& value) {
    const std::size_t size = count();
    value.assign(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    bytes_ = bytes_.subspan(size);
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    bool present = false;
    (*this)(present);
    value.reset();
    if (present) (*this)(value.emplace());
  }
  template <typename Enum>
  void enumeration(Enum& value, Enum last) {
    const std::uint8_t byte = next();
    if (byte > static_cast<std::uint8_t>(last)) fail();
    value = ok_ ? static_cast<Enum>(byte) : Enum{};
  }
  template <typename Item, typename Visit>
  void list(std::vector<Item>& items, Visit visit) {
    const std::size_t size = count();
    items.clear();
    for (std::size_t i = 0; i < size && ok_; ++i) visit(*this, items.emplace_back());
  }
  template <PlainInteger T>
  void operator()(std::vector<T>& items) {
    items.resize(count());
    for (T& item : items) (*this)(item);
  }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) {
      fail();
      return 0;
    }
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  std::span<const std::uint8_t> bytes_;
  bool ok_ = true;
};

}  // namespace quire
