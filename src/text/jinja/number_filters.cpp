// Filters that read numbers and compute with them.
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

// Without white space around.
std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    std::size_t next = 0;
    if (!is_space(next_code_point(text, next))) break;
    text.remove_prefix(next);
  }
  while (!text.empty()) {
    const std::size_t start = previous_start(text, text.size());
    std::size_t at = start;
    if (!is_space(next_code_point(text, at))) break;
    text = text.substr(0, start);
  }
  return text;
}

// What reading a number out of a value costs.
Status charge_number(const Value& value, Budget& budget) {
  if (!value.is_string()) return {};
  QUIRE_RETURN_IF_ERROR(budget.characters(2 * value.view().size()));
  return budget.bytes(value.view().size());
}

// Python's float(text), or nothing: white space around and single underscores are allowed.
bool parse_float(std::string_view text, double& out) {
  std::string digits(trimmed(text));
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < digits.size() && digits[at] >= '0' && digits[at] <= '9';
    };
    if (digits[i] == '_' && (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))) return false;
  }
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  if (digits.starts_with("+") || digits.empty()) return false;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (end.ec == std::errc::result_out_of_range) {
    out = digits.find("e-") != std::string::npos || digits.find("E-") != std::string::npos
              ? 0.0
              : (digits[0] == '-' ? -HUGE_VAL : HUGE_VAL);
    return true;
  }
  return end.ec == std::errc{} && end.ptr == digits.data() + digits.size() &&
         digits.find('(') == std::string::npos;
}

bool parse_int(std::string_view text, Int base, Int& out) {
  std::string_view digits = trimmed(text);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    const Int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      digits.remove_prefix(digits[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (digits.empty() || base < 2 || base > 36) return false;
  out = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i];
    if (c == '_' && i > 0 && digits[i - 1] != '_' && i + 1 < digits.size()) continue;
    const char lower = static_cast<char>(c | 0x20);
    const Int digit = c >= '0' && c <= '9'           ? c - '0'
                      : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                     : 99;
    if (digit >= base) return false;
    if (__builtin_mul_overflow(out, base, &out) || __builtin_add_overflow(out, digit, &out)) {
      return false;
    }
  }
  if (negative) out = -out;
  return true;
}

Result<Value> filter_int(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(charge_number(value, budget));
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'int'", {"default", "base"}));
  QUIRE_ASSIGN_OR_RETURN(const Int base, bound.integer(1, 10));
  const Value fallback = bound.has(0) ? bound.at(0) : Value::integer(0);
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return Value::integer(value.as_int());
  double number = 0;
  if (value.is_string()) {
    Int parsed = 0;
    if (parse_int(value.view(), base, parsed)) return Value::integer(parsed);
    if (!parse_float(value.view(), number)) return fallback;
  } else if (value.is(Kind::kFloat)) {
    number = value.as_double();
    if (std::isinf(number)) return Status::invalid_argument("cannot convert infinity to an int");
  } else {
    return fallback;
  }
  if (!std::isfinite(number)) return fallback;
  if (std::fabs(number) >= 1e37) return Status::invalid_argument("integer of more than 128 bits");
  return Value::integer(static_cast<Int>(number));
}

Result<Value> filter_float(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(charge_number(value, budget));
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'float'", {"default"}));
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_numeric()) return Value::number(value.as_double());
  double number = 0;
  if (value.is_string() && parse_float(value.view(), number)) return Value::number(number);
  return bound.has(0) ? bound.at(0) : Value::number(0);
}

Result<Value> filter_abs(const Value& value, const Args& args, Budget&) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'abs'", {}).status());
  if (value.is(Kind::kFloat)) return Value::number(std::fabs(value.as_double()));
  if (value.is_integral() && value.as_int() < 0) return negate(value);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is_undefined()) return undefined_error(value);
  return Status::invalid_argument("filter 'abs' needs a number");
}

// round(value, precision) of Python: exact decimal rounding, ties to even.
double round_decimal(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::isfinite(unit) ? std::nearbyint(value / unit) * unit : 0.0;
  }
  std::string buffer(static_cast<std::size_t>(precision) + 400, '\0');
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, precision);
  double out = 0;
  std::from_chars(buffer.data(), end.ptr, out);
  return out;
}

Result<Value> filter_round(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'round'", {"precision", "method"}));
  QUIRE_ASSIGN_OR_RETURN(const Int precision, bound.integer(0, 0));
  QUIRE_ASSIGN_OR_RETURN(const Value method, bound.string(1, "common"));
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_numeric()) return Status::invalid_argument("filter 'round' needs a number");
  if (precision > 300 || precision < -300) {
    return Status::invalid_argument("filter 'round': precision out of range");
  }
  QUIRE_RETURN_IF_ERROR(budget.step(100));  // hundreds of digits
  const int digits = static_cast<int>(precision);
  if (method.view() == "common") {
    if (value.is_integral() && digits >= 0) return Value::integer(value.as_int());
    const double rounded = round_decimal(value.as_double(), digits);
    if (value.is(Kind::kFloat)) return Value::number(rounded);
    return Value::integer(static_cast<Int>(rounded));
  }
  if (method.view() != "ceil" && method.view() != "floor") {
    return Status::invalid_argument("filter 'round': method must be common, ceil or floor");
  }
  const double unit = std::pow(10.0, digits);
  const double scaled = value.as_double() * unit;
  return Value::number((method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr std::array<FilterEntry, 4> kNumberFilters = {{
    {"abs", filter_abs},
    {"float", filter_float},
    {"int", filter_int},
    {"round", filter_round},
}};

}  // namespace

FilterFunction find_number_filter(std::string_view name) {
  for (const FilterEntry& entry : kNumberFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace quire::jinja
