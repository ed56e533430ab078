#include "text/jinja/unicode.h"

#include <algorithm>
#include <iterator>

#include <utf8proc.h>

#include "text/jinja/special_cases.h"

namespace quire::jinja {
namespace {

utf8proc_int32_t signed_of(char32_t c) { return static_cast<utf8proc_int32_t>(c); }

utf8proc_category_t category(char32_t c) { return utf8proc_category(signed_of(c)); }

const SpecialCase* special_case(char32_t c) {
  if (c < 0x80) return nullptr;
  const auto* it = std::lower_bound(
      std::begin(kSpecialCases), std::end(kSpecialCases), c,
      [](const SpecialCase& row, char32_t value) { return row.code_point < value; });
  return it != std::end(kSpecialCases) && it->code_point == c ? it : nullptr;
}

void append_all(std::string& out, const char32_t (&mapped)[3]) {
  for (const char32_t c : mapped) {
    if (c != 0) append_utf8(out, c);
  }
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = at(position);
  const std::size_t length = utf8_length(static_cast<unsigned char>(first));
  char32_t c = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) c = (c << 6) | (at(position + i) & 0x3FU);
  position = std::min(position + length, text.size());
  return c;
}

std::size_t previous_start(std::string_view text, std::size_t position) {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0U) == 0x80U);
  return position;
}

std::size_t code_point_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::size_t byte_offset(std::string_view text, std::size_t index, std::size_t from) {
  while (index > 0 && from < text.size()) {
    from += utf8_length(static_cast<unsigned char>(text[from]));
    --index;
  }
  return std::min(from, text.size());
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t buffer[4];
  const auto n = utf8proc_encode_char(signed_of(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(n));
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_word(char32_t c) {
  const auto k = category(c);
  return c == '_' || is_alpha(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool is_upper(char32_t c) { return utf8proc_isupper(signed_of(c)) != 0; }
bool is_lower(char32_t c) { return utf8proc_islower(signed_of(c)) != 0; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  if (c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (const SpecialCase* row = special_case(c)) {
    append_all(out, row->upper);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(signed_of(c))));
  }
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {  // capital I with dot above: the one full lowercase mapping
    append_utf8(out, 'i');
    append_utf8(out, 0x307);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(signed_of(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* row = special_case(c)) {
    append_all(out, row->title);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(signed_of(c))));
  }
}

}  // namespace quire::jinja
