// Numbers of a schema in decimal digits.
#include "text/grammar/json_schema_decimal.h"

#include <array>
#include <charconv>

namespace quire {

Decimal decimal_of(const json::value& number) {
  std::array<char, 64> buffer{};
  char* const begin = buffer.data();
  char* const limit = begin + buffer.size();
  std::to_chars_result written{};
  if (const std::int64_t* integer = number.if_int64()) {
    written = std::to_chars(begin, limit, *integer);
  } else if (const std::uint64_t* natural = number.if_uint64()) {
    written = std::to_chars(begin, limit, *natural);
  } else {
    written = std::to_chars(begin, limit, number.get_double(), std::chars_format::scientific);
  }
  std::string_view text(begin, static_cast<std::size_t>(written.ptr - begin));
  Decimal decimal;
  if (text.starts_with('-')) {
    decimal.negative = true;
    text.remove_prefix(1);
  }
  std::string digits;
  int point = 0;  // digits before it
  int exponent = 0;
  const std::size_t e = text.find('e');
  if (e != std::string_view::npos) {
    std::string_view tail = text.substr(e + 1);
    if (tail.starts_with('+')) tail.remove_prefix(1);
    std::from_chars(tail.data(), tail.data() + tail.size(), exponent);
    text = text.substr(0, e);
  }
  const std::size_t dot = text.find('.');
  digits = text.substr(0, dot);
  point = static_cast<int>(digits.size()) + exponent;
  if (dot != std::string_view::npos) digits += text.substr(dot + 1);
  if (point <= 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<std::size_t>(point) > digits.size()) {
    digits.append(static_cast<std::size_t>(point) - digits.size(), '0');
  }
  decimal.whole = digits.substr(0, static_cast<std::size_t>(point));
  decimal.fraction = digits.substr(static_cast<std::size_t>(point));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

bool json_equal(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return decimal_of(a) == decimal_of(b);
  if (a.kind() != b.kind()) return false;
  if (const json::array* left = a.if_array()) {
    const json::array& right = b.get_array();
    if (left->size() != right.size()) return false;
    for (std::size_t i = 0; i < left->size(); ++i) {
      if (!json_equal((*left)[i], right[i])) return false;
    }
    return true;
  }
  if (const json::object* left = a.if_object()) {
    const json::object& right = b.get_object();
    if (left->size() != right.size()) return false;
    for (const auto& entry : *left) {
      const json::value* other = right.if_contains(entry.key());
      if (other == nullptr || !json_equal(entry.value(), *other)) return false;
    }
    return true;
  }
  return a == b;
}

}  // namespace quire
