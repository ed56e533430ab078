#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "text/jinja/formatting.h"
#include "text/jinja/printing.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

Status type_error(std::string_view op, const Value& a, const Value& b) {
  return Status::invalid_argument("unsupported operand types for " + std::string(op) + ": '" +
                                  std::string(kind_name(a)) + "' and '" +
                                  std::string(kind_name(b)) + "'");
}

Status overflow() { return Status::invalid_argument("integer of more than 128 bits"); }

// Charges the cost of reading a value once without descending into it.
Status charge(const Value& value, Budget& budget) {
  return value.is_string() ? budget.scan(value.view().size()) : Status();
}

std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    if (a.as_int() == b.as_int()) return std::partial_ordering::equivalent;
    return a.as_int() < b.as_int() ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  return a.as_double() <=> b.as_double();
}

// Python's ordering of two values of kinds that have one.
Result<std::partial_ordering> order(std::string_view op, const Value& a, const Value& b,
                                    Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step());
  if (a.is_numeric() && b.is_numeric()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    QUIRE_RETURN_IF_ERROR(budget.scan(std::min(a.view().size(), b.view().size())));
    return std::partial_ordering(a.view() <=> b.view());
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& left = a.items();
    const auto& right = b.items();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(left[i], right[i], budget));
      if (!equal) return order(op, left[i], right[i], budget);
    }
    return std::partial_ordering(left.size() <=> right.size());
  }
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return Status::invalid_argument("'" + std::string(op) + "' not supported between '" +
                                  std::string(kind_name(a)) + "' and '" +
                                  std::string(kind_name(b)) + "'");
}

Result<bool> equal_dicts(const DictObject& a, const DictObject& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    QUIRE_ASSIGN_OR_RETURN(const std::string hash, hash_key(key, budget));
    const Value* other = b.find_key(hash);
    if (other == nullptr) return false;
    QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(value, *other, budget));
    if (!equal) return false;
  }
  return true;
}

Result<Value> add(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string() && b.is_string()) {
    const bool is_markup = a.is_markup() || b.is_markup();
    QUIRE_ASSIGN_OR_RETURN(const Value left, is_markup ? escape_html(a, budget) : Result<Value>(a));
    QUIRE_ASSIGN_OR_RETURN(const Value right,
                           is_markup ? escape_html(b, budget) : Result<Value>(b));
    const std::size_t weight = left.text().weight() + right.text().weight();
    QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + weight));
    QUIRE_RETURN_IF_ERROR(budget.scan(weight));
    Text out;
    out.reserve(left.view().size() + right.view().size());
    out.append(left.text());
    out.append(right.text());
    return Value::string(std::move(out), is_markup);
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    QUIRE_RETURN_IF_ERROR(budget.bytes((a.items().size() + b.items().size()) * sizeof(Value)));
    QUIRE_RETURN_IF_ERROR(budget.step((a.items().size() + b.items().size()) / 8));
    std::vector<Value> items;
    items.reserve(a.items().size() + b.items().size());
    items.insert(items.end(), a.items().begin(), a.items().end());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return make_sequence(a.kind(), std::move(items), budget);
  }
  return type_error("+", a, b);
}

Result<Value> repeat(const Value& what, Int count, Budget& budget) {
  count = std::max<Int>(count, 0);
  const std::size_t size =
      what.is_string() ? what.text().weight() : what.items().size() * sizeof(Value);
  constexpr Int kMax = static_cast<Int>(1) << 62;
  Int total = 0;
  if (__builtin_mul_overflow(count, static_cast<Int>(size), &total) || total > kMax) total = kMax;
  QUIRE_RETURN_IF_ERROR(budget.bytes(static_cast<std::uint64_t>(total)));
  if (size == 0) count = 0;
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes));
  QUIRE_RETURN_IF_ERROR(
      budget.step(static_cast<std::uint64_t>(count) / 4 + static_cast<std::uint64_t>(total) / 64));
  if (what.is_string()) {
    Text out;
    out.reserve(static_cast<std::size_t>(count) * what.view().size());
    for (Int i = 0; i < count; ++i) out.append(what.text());
    return Value::string(std::move(out), what.is_markup());
  }
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count) * what.items().size());
  for (Int i = 0; i < count; ++i) {
    items.insert(items.end(), what.items().begin(), what.items().end());
  }
  return make_sequence(what.kind(), std::move(items), budget);
}

Result<Value> int_power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) return Status::invalid_argument("0 to a negative power");
    return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value::integer(result);
}

Result<Value> integer_arithmetic(std::string_view op, Int a, Int b) {
  Int out = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &out) ? Result<Value>(overflow()) : Value::integer(out);
  if (op == "-")
    return __builtin_sub_overflow(a, b, &out) ? Result<Value>(overflow()) : Value::integer(out);
  if (op == "*")
    return __builtin_mul_overflow(a, b, &out) ? Result<Value>(overflow()) : Value::integer(out);
  if (op == "**") return int_power(a, b);
  if (b == 0) return Status::invalid_argument("division by zero");
  if (op == "/") return Value::number(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    if (op == "%") return Value::integer(0);
    return integer_arithmetic("-", 0, a);
  }
  Int quotient = a / b;
  if (a % b != 0 && ((a < 0) != (b < 0))) --quotient;  // rounds down
  return Value::integer(op == "//" ? quotient : a - quotient * b);
}

Result<Value> float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") {
    const double power = std::pow(a, b);
    if ((a == 0 && b < 0) || (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) ||
        (std::isinf(power) && std::isfinite(a) && std::isfinite(b))) {
      return Status::invalid_argument("power without a finite real result");
    }
    return Value::number(power);
  }
  if (b == 0) return Status::invalid_argument("division by zero");
  if (op == "/") return Value::number(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && ((rest < 0) != (b < 0))) rest += b;
  if (op == "%") return Value::number(rest == 0 ? std::copysign(0.0, b) : rest);
  const double quotient = (a - rest) / b;
  double floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1.0;
  return Value::number(quotient == 0 ? std::copysign(0.0, a / b) : floor);
}

}  // namespace

Status undefined_error(const Value& value) {
  return Status::invalid_argument(std::string(value.hint()));
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.view().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kRange:
      return value.as<RangeObject>().length() > 0;
    default:
      return true;
  }
}

Result<bool> is_equal(const Value& a, const Value& b, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step());
  if (a.is_numeric() && b.is_numeric()) {
    return order_numbers(a, b) == std::partial_ordering::equivalent;
  }
  if (a.kind() != b.kind()) return false;
  if (a.identity() != nullptr && a.identity() == b.identity()) return true;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.view().size() != b.view().size()) return false;
      QUIRE_RETURN_IF_ERROR(charge(a, budget));
      return a.view() == b.view();
    case Kind::kList:
    case Kind::kTuple: {
      if (a.items().size() != b.items().size()) return false;
      for (std::size_t i = 0; i < a.items().size(); ++i) {
        QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(a.items()[i], b.items()[i], budget));
        if (!equal) return false;
      }
      return true;
    }
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict(), budget);
    case Kind::kRange: {
      const auto& left = a.as<RangeObject>();
      const auto& right = b.as<RangeObject>();
      const Int count = left.length();
      return count == right.length() && (count == 0 || left.start == right.start) &&
             (count <= 1 || left.step == right.step);
    }
    default:
      return false;
  }
}

Result<bool> is_less(const Value& a, const Value& b, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const std::partial_ordering result, order("<", a, b, budget));
  return result == std::partial_ordering::less;
}

Result<bool> compare(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "==") return is_equal(a, b, budget);
  if (op == "!=") {
    QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(a, b, budget));
    return !equal;
  }
  if (op == "in") return contains(b, a, budget);
  if (op == "not in") {
    QUIRE_ASSIGN_OR_RETURN(const bool found, contains(b, a, budget));
    return !found;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::partial_ordering result, order(op, a, b, budget));
  if (op == "<") return result == std::partial_ordering::less;
  if (op == ">") return result == std::partial_ordering::greater;
  if (result == std::partial_ordering::equivalent) return true;
  return result == (op == "<=" ? std::partial_ordering::less : std::partial_ordering::greater);
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_string()) {
    if (item.is_undefined()) return undefined_error(item);
    if (!item.is_string()) return type_error("in <string>", item, container);
    QUIRE_RETURN_IF_ERROR(charge(container, budget));
    return find_bytes(container.view(), item.view(), 0) != std::string_view::npos;
  }
  if (container.is_dict()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string hash, hash_key(item, budget));
    return container.dict().find_key(hash) != nullptr;
  }
  if (!is_iterable(container)) {
    return Status::invalid_argument("argument of type '" + std::string(kind_name(container)) +
                                    "' is not iterable");
  }
  if (container.is_sequence() || container.is(Kind::kView)) {
    for (const Value& element : container.items()) {
      QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(element, item, budget));
      if (equal) return true;
    }
    return false;
  }
  QUIRE_ASSIGN_OR_RETURN(const Items items, iterate(container, budget));
  for (const Value& element : items.values) {
    QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(element, item, budget));
    if (equal) return true;
  }
  return false;
}

Result<Value> arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "%" && a.is_string()) return format_printf(a, b, budget);
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.as_int(), b.as_int());
  if (a.is_numeric() && b.is_numeric()) {
    return float_arithmetic(op, a.as_double(), b.as_double());
  }
  if (op == "+") return add(a, b, budget);
  if (op == "*") {
    if ((a.is_string() || a.is_sequence()) && b.is_integral()) return repeat(a, b.as_int(), budget);
    if ((b.is_string() || b.is_sequence()) && a.is_integral()) return repeat(b, a.as_int(), budget);
  }
  return type_error(op, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return integer_arithmetic("-", 0, value.as_int());
  if (value.is_numeric()) return Value::number(-value.as_double());
  return Status::invalid_argument("bad operand type for unary -: '" +
                                  std::string(kind_name(value)) + "'");
}

Result<Int> length(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return Int{0};
    case Kind::kString:
      QUIRE_RETURN_IF_ERROR(charge(value, budget));
      return static_cast<Int>(code_point_count(value.view()));
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return static_cast<Int>(value.items().size());
    case Kind::kDict:
      return static_cast<Int>(value.dict().entries.size());
    case Kind::kRange:
      return value.as<RangeObject>().length();
    default:
      return Status::invalid_argument("object of type '" + std::string(kind_name(value)) +
                                      "' has no length");
  }
}

}  // namespace quire::jinja
