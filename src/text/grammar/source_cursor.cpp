#include "text/grammar/source_cursor.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

char32_t SourceCursor::take() {
  if (at_end()) return kEnd;
  const Utf8Char c = decode_utf8(text_, at_);
  at_ += c.size;
  return c.code;
}

bool SourceCursor::take_if(std::string_view expected) {
  if (!looking_at(expected)) return false;
  at_ += expected.size();
  return true;
}

std::string SourceCursor::place(std::size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  std::size_t column = 1;
  for (std::size_t i = line_begin; i < position; i += decode_utf8(text_, i).size) ++column;
  return fmt::format("{}, line {}, column {}", what_, line, column);
}

Status SourceCursor::expected_at(std::size_t position, std::string_view expected) const {
  const std::string found =
      position >= text_.size()
          ? "the end"
          : fmt::format("\"{}\"",
                        printable(text_.substr(position, decode_utf8(text_, position).size)));
  return wrong_at(position, fmt::format("found {}, expected {}", found, expected));
}

Status SourceCursor::wrong_at(std::size_t position, std::string_view message) const {
  return Status::invalid_argument(fmt::format("{}: {}", place(position), message));
}

Status SourceCursor::unsupported_at(std::size_t position, std::string_view message,
                                    std::string_view remedy) const {
  return Status::unimplemented(fmt::format("{}: {}", place(position), message), remedy);
}

Status check_source(std::string_view text, std::string_view what, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return Status::resource_exhausted(fmt::format("{} has {} bytes, more than {} (limit "
                                                  "max_source_bytes)",
                                                  what, text.size(), max_bytes),
                                      "shorten it");
  }
  if (!is_valid_utf8(text)) {
    return Status::invalid_argument(fmt::format("{} is not valid UTF-8", what));
  }
  return {};
}

Result<char32_t> take_hex(SourceCursor& cursor, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t digit = hex_value(cursor.peek());
    if (digit > 15) return cursor.expected("a hexadecimal digit");
    value = value * 16 + digit;
    cursor.take();
  }
  return value;
}

Result<char32_t> take_braced_hex(SourceCursor& cursor) {
  const std::size_t begin = cursor.position();
  char32_t value = 0;
  while (hex_value(cursor.peek()) <= 15) {
    value = value * 16 + hex_value(cursor.take());
    if (value > 0x10FFFF) return cursor.wrong_at(begin, "a code point beyond 10FFFF");
  }
  if (cursor.position() == begin) return cursor.expected("a hexadecimal digit");
  if (!cursor.take_if("}")) return cursor.expected("\"}\"");
  return value;
}

Result<std::uint32_t> take_number(SourceCursor& cursor) {
  const std::size_t begin = cursor.position();
  std::uint32_t value = 0;
  while (cursor.peek() >= '0' && cursor.peek() <= '9') {
    if (cursor.position() - begin == 9) {
      return cursor.wrong_at(begin, "a number of more than nine digits");
    }
    value = value * 10 + static_cast<std::uint32_t>(cursor.take() - '0');
  }
  if (cursor.position() == begin) return cursor.expected("a number");
  return value;
}

}  // namespace quire
