#include "load/protobuf_cursor.h"

namespace quire {

std::optional<std::uint64_t> ProtobufCursor::varint() {
  constexpr unsigned kMaxShift = 63;
  std::uint64_t value = 0;
  for (unsigned shift = 0; !rest_.empty() && shift <= kMaxShift; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ProtobufCursor::fixed(std::size_t size) {
  if (rest_.size() < size) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(size);
  return value;
}

std::optional<ProtobufCursor::Field> ProtobufCursor::next() {
  if (rest_.empty() || damaged_) return std::nullopt;
  damaged_ = true;  // unless all of the field is there
  const auto tag = varint();
  if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1FFFFFFF) return std::nullopt;
  Field field;
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  std::optional<std::uint64_t> value;
  switch (*tag & 7) {
    case 0:
      value = varint();
      break;
    case 1:
      value = fixed(8);
      break;
    case 2:
      value = varint();
      if (!value || *value > rest_.size()) return std::nullopt;
      field.bytes = rest_.substr(0, *value);
      field.has_bytes = true;
      rest_.remove_prefix(*value);
      break;
    case 5:
      value = fixed(4);
      break;
    default:  // groups, which nothing writes any more
      return std::nullopt;
  }
  if (!value) return std::nullopt;
  field.value = *value;
  damaged_ = false;
  return field;
}

}  // namespace quire
