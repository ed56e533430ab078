// Code points of UTF-8 text with the properties and case mappings that Python's str methods use.
// All functions expect valid UTF-8 (inputs and template sources are checked at the boundary).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::jinja {

// Decodes the code point at `position` (< size) and moves `position` behind it.
char32_t next_code_point(std::string_view text, std::size_t& position);
// The start of the code point that ends at `position` (> 0).
std::size_t previous_start(std::string_view text, std::size_t position);
std::size_t code_point_count(std::string_view text);
// Byte offset of code point `index` counted from `from`; text.size() when there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t index, std::size_t from = 0);
void append_utf8(std::string& out, char32_t code_point);
inline std::size_t utf8_length(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

bool is_space(char32_t c);       // str.isspace
bool is_line_break(char32_t c);  // str.splitlines ("\r\n" is one break; the caller's task)
bool is_alpha(char32_t c);       // str.isalpha
bool is_decimal(char32_t c);     // str.isdecimal
bool is_word(char32_t c);        // \w of a Unicode regular expression
bool is_identifier_start(char32_t c);
bool is_printable(char32_t c);  // str.isprintable: what repr() does not escape
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_case_ignorable(char32_t c);

// Full case mappings (one code point may become up to three), without context.
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace quire::jinja
