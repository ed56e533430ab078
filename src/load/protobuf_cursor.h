// Reads the fields of one Protobuf message, as much as SentencePiece's models need.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

class ProtobufCursor {
 public:
  struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;   // of a varint, or the bits of a fixed one
    std::string_view bytes{};  // of a field with a length: text, or another message
    bool has_bytes = false;
  };

  // Borrows the message.
  explicit ProtobufCursor(std::string_view message) : rest_(message) {}

  // The next field; nullopt at the end, and where the message is damaged.
  std::optional<Field> next();
  bool damaged() const { return damaged_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(std::size_t size);

  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace quire
