// Reading a grammar's text, character by character, and saying where it is wrong. Internal to
// src/text/grammar.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/utf8.h"

namespace quire {

class SourceCursor {
 public:
  static constexpr char32_t kEnd = 0xFFFFFFFF;  // no character

  // `what` begins the messages: "the regular expression". `text` is valid UTF-8 (check_source).
  SourceCursor(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  bool at_end() const { return at_ >= text_.size(); }
  char32_t peek() const { return at_end() ? kEnd : decode_utf8(text_, at_).code; }
  char32_t take();
  std::string_view rest() const { return text_.substr(at_); }
  bool looking_at(std::string_view expected) const { return rest().starts_with(expected); }
  // Whether it stood there; then it is passed.
  bool take_if(std::string_view expected);

  std::size_t position() const { return at_; }
  void go_to(std::size_t position) { at_ = position; }
  std::string_view text() const { return text_; }

  // "<what>, line 3, column 7: found "x", expected y". Of the place `position`.
  Status expected(std::string_view expected) const { return expected_at(at_, expected); }
  Status expected_at(std::size_t position, std::string_view expected) const;
  // "<what>, line 3, column 7: <message>".
  Status wrong_at(std::size_t position, std::string_view message) const;
  Status unsupported_at(std::size_t position, std::string_view message,
                        std::string_view remedy) const;

 private:
  std::string place(std::size_t position) const;

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

// kResourceExhausted for a text that is longer than `max_bytes`, kInvalidArgument for one that is
// not UTF-8.
Status check_source(std::string_view text, std::string_view what, std::size_t max_bytes);

// The value of exactly `digits` hexadecimal digits, which are passed.
Result<char32_t> take_hex(SourceCursor& cursor, int digits);

// The code point after `{`, up to the `}`, which are passed.
Result<char32_t> take_braced_hex(SourceCursor& cursor);

// 0xFFFFFFFF (a CharSet's code points are below) for a `c` that is no hexadecimal digit.
constexpr char32_t hex_value(char32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 0xFFFFFFFF;
}

// Decimal digits at the cursor, which are passed; more than 9 of them are refused.
Result<std::uint32_t> take_number(SourceCursor& cursor);

}  // namespace quire
