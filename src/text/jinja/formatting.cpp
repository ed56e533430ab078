#include "text/jinja/formatting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/printable.h"
#include "text/jinja/attributes.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr Int kMaxPrecision = 1000;

// What both mini-languages say about one value.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<' '>' '^' '=' or none
  char sign = '-';    // '-', '+' or ' '
  bool alternate = false;
  char grouping = '\0';
  Int width = 0;
  Int precision = -1;
  char type = '\0';
};

Status bad_format(const std::string& what) {
  return Status::invalid_argument("format string: " + what);
}

Int read_number(std::string_view text, std::size_t& i) {
  Int value = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
    value = std::min<Int>(value * 10 + (text[i] - '0'), static_cast<Int>(1) << 40);
    ++i;
  }
  return value;
}

std::string int_digits(Int value, char type) {
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  if (base == 10) {
    std::string out = format_int(value);
    return value < 0 ? out.substr(1) : out;
  }
  UnsignedInt magnitude =
      value < 0 ? -static_cast<UnsignedInt>(value) : static_cast<UnsignedInt>(value);
  std::string out;
  do {
    out.push_back("0123456789abcdef"[static_cast<int>(magnitude % static_cast<unsigned>(base))]);
    magnitude /= static_cast<unsigned>(base);
  } while (magnitude != 0);
  if (type == 'X')
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_digits(double value, const Spec& spec) {
  value = std::fabs(value);
  const bool upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  if (spec.type == '\0' && spec.precision < 0) return format_float(value);
  int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const char type = spec.type == '\0' ? 'g' : static_cast<char>(spec.type | 0x20);
  if (spec.type == '%') value *= 100;
  std::chars_format style = std::chars_format::fixed;
  if (type == 'e') style = std::chars_format::scientific;
  if (type == 'g') {
    style = std::chars_format::general;
    precision = std::max(precision, 1);
  }
  std::string buffer(static_cast<std::size_t>(precision) + 400, '\0');
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, style, precision);
  buffer.resize(static_cast<std::size_t>(end.ptr - buffer.data()));
  if (spec.type == '\0' && buffer.find_first_of(".e") == std::string::npos) buffer += ".0";
  if (upper) std::replace(buffer.begin(), buffer.end(), 'e', 'E');
  if (spec.type == '%') buffer += '%';
  return buffer;
}

void group_digits(std::string& digits, char separator) {
  std::size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (std::size_t i = end; i > 3; i -= 3) digits.insert(i - 3, 1, separator);
}

Result<Text> format_number(const Value& value, const Spec& spec, Budget& budget) {
  if (spec.precision > kMaxPrecision) return bad_format("precision of more than 1000");
  QUIRE_RETURN_IF_ERROR(budget.step(10));
  if (spec.precision > 0) {  // a digit of a float's thousand is hard work
    QUIRE_RETURN_IF_ERROR(budget.step(static_cast<std::uint64_t>(spec.precision) / 8));
  }
  const bool as_float = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool is_float = value.is(Kind::kFloat) || (as_float && spec.type != '\0');
  std::string digits;
  bool negative = false;
  if (is_float) {
    digits = float_digits(value.as_double(), spec);
    negative = std::signbit(value.as_double());
  } else {
    digits = int_digits(value.as_int(), spec.type);
    negative = value.as_int() < 0;
  }
  if (spec.grouping != '\0') group_digits(digits, spec.grouping);
  std::string prefix = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.alternate && !is_float &&
      std::string_view("xXob").find(spec.type) != std::string_view::npos) {
    prefix += std::string("0") + spec.type;
  }
  const std::size_t size = prefix.size() + digits.size();
  if (spec.align == '=' && static_cast<Int>(size) < spec.width) {
    QUIRE_ASSIGN_OR_RETURN(const Text padded,
                           pad(Text(digits, false), spec.width - static_cast<Int>(prefix.size()),
                               '>', spec.fill, budget));
    Text out(prefix, false);
    out.append(padded);
    return out;
  }
  return pad(Text(prefix + digits, false), spec.width, spec.align == '\0' ? '>' : spec.align,
             spec.fill, budget);
}

Result<Text> format_text(const Text& text, const Spec& spec, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.scan(2 * text.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(text.weight()));
  const std::size_t end = spec.precision < 0
                              ? text.size()
                              : byte_offset(text.view(), static_cast<std::size_t>(spec.precision));
  return pad(text.substr(0, end), spec.width, spec.align == '\0' ? '<' : spec.align, spec.fill,
             budget);
}

Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  std::size_t i = 0;
  const auto is_align = [&](std::size_t at) {
    return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos;
  };
  if (!text.empty()) {
    std::size_t after = 0;
    next_code_point(text, after);
    if (is_align(after)) {
      spec.fill = text.substr(0, after);
      spec.align = text[after];
      i = after + 1;
    } else if (is_align(0)) {
      spec.align = text[i++];
    }
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' '))
    spec.sign = text[i++];
  if (i < text.size() && text[i] == '#') spec.alternate = ++i > 0;
  if (i < text.size() && text[i] == '0') {
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    ++i;
  }
  spec.width = read_number(text, i);
  if (i < text.size() && (text[i] == ',' || text[i] == '_')) spec.grouping = text[i++];
  if (i < text.size() && text[i] == '.') spec.precision = read_number(text, ++i);
  if (i < text.size()) spec.type = text[i++];
  if (i != text.size()) return bad_format("invalid format specifier '" + printable(text) + "'");
  return spec;
}

Result<Text> apply_spec(const Value& value, std::string_view spec_text, Budget& budget) {
  if (spec_text.empty()) return to_text(value, budget);
  QUIRE_ASSIGN_OR_RETURN(const Spec spec, parse_spec(spec_text));
  const auto unknown = [&] {
    return bad_format(std::string("unknown format code '") + spec.type + "' for object of type '" +
                      std::string(kind_name(value)) + "'");
  };
  const auto type_in = [&](std::string_view types) {
    return spec.type == '\0' || types.find(spec.type) != std::string_view::npos;
  };
  if (value.is_string()) {
    if (!type_in("s") || spec.align == '=') return unknown();
    return format_text(value.text(), spec, budget);
  }
  if (value.is_integral()) {
    if (!type_in("bdoxXeEfFgG%")) return unknown();
    if (value.is(Kind::kBool) && spec.type == '\0') {
      QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(value, budget));
      return format_text(text, spec, budget);
    }
    return format_number(value, spec, budget);
  }
  if (value.is(Kind::kFloat)) {
    if (!type_in("eEfFgG%")) return unknown();
    return format_number(value, spec, budget);
  }
  return bad_format("unsupported format specifier for " + std::string(kind_name(value)));
}

// "%..." after the flags and sizes: formats one value.
Result<Text> printf_value(const Value& value, Spec spec, Budget& budget) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    if (spec.type == 'a') return bad_format("%a is not supported");
    if (spec.type == 's' && value.is_string()) {
      QUIRE_RETURN_IF_ERROR(budget.scan(value.view().size()));
      QUIRE_RETURN_IF_ERROR(budget.bytes(value.text().weight()));
    }
    QUIRE_ASSIGN_OR_RETURN(const Text text,
                           spec.type == 's' ? to_text(value, budget) : to_repr(value, budget));
    if (spec.align != '<') spec.align = '>';
    spec.fill = " ";
    return format_text(text, spec, budget);
  }
  if (spec.type == 'c') {
    Text text;
    if (value.is_string() && code_point_count(value.view()) == 1) {
      text = value.text();
    } else if (value.is_integral() && value.as_int() >= 0 && value.as_int() < 0xD800) {
      std::string bytes;
      append_utf8(bytes, static_cast<char32_t>(value.as_int()));
      text = Text(bytes, false);
    } else {
      return bad_format("%c requires int or char");
    }
    if (spec.align != '<') spec.align = '>';
    spec.fill = " ";
    spec.precision = -1;
    return format_text(text, spec, budget);
  }
  if (!value.is_numeric()) {
    if (value.is_undefined()) return undefined_error(value);
    return bad_format(std::string("%") + spec.type + " format: a number is required, not " +
                      std::string(kind_name(value)));
  }
  if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
  const bool is_int_type = std::string_view("doxX").find(spec.type) != std::string_view::npos;
  if (!is_int_type) return format_number(value, spec, budget);
  if (value.is(Kind::kFloat)) {
    const double number = std::trunc(value.as_double());
    if (spec.type != 'd' || !(std::fabs(number) < 1e37)) {
      return bad_format(std::string("%") + spec.type +
                        " format: an integer is required, not float");
    }
    return format_number(Value::integer(static_cast<Int>(number)), spec, budget);
  }
  return format_number(value, spec, budget);
}

}  // namespace

Result<Text> pad(const Text& text, Int width, char align, std::string_view fill, Budget& budget) {
  const Int missing = width - static_cast<Int>(code_point_count(text.view()));
  if (missing <= 0) return text;
  constexpr Int kMost = static_cast<Int>(1) << 40;
  const auto count = static_cast<std::uint64_t>(std::min<Int>(missing, kMost));
  QUIRE_RETURN_IF_ERROR(budget.bytes(text.weight() + count * fill.size()));
  QUIRE_RETURN_IF_ERROR(budget.step(count / 8));
  const Int left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  Text out;
  out.reserve(text.size() + count * fill.size());
  for (Int i = 0; i < left; ++i) out.append(fill, false);
  out.append(text);
  for (Int i = left; i < missing; ++i) out.append(fill, false);
  return out;
}

Result<Value> format_printf(const Value& pattern, const Value& values, Budget& budget) {
  const Text& text = pattern.text();
  const std::string_view view = text.view();
  QUIRE_RETURN_IF_ERROR(budget.scan(view.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + 2 * text.weight()));
  const bool is_tuple = values.is(Kind::kTuple);
  const std::size_t count = is_tuple ? values.items().size() : 1;
  std::size_t used = 0;
  bool used_mapping = false;
  const auto next_value = [&]() -> Result<Value> {
    if (used >= count) return bad_format("not enough arguments");
    return is_tuple ? values.items()[used++] : (++used, values);
  };
  Text out;
  std::size_t i = 0;
  while (i < view.size()) {
    QUIRE_RETURN_IF_ERROR(budget.step(2));
    const std::size_t percent = std::min(view.find('%', i), view.size());
    out.append_part(text, i, percent);
    if (percent == view.size()) break;
    i = percent + 1;
    Spec spec;
    Value value;
    bool has_value = false;
    if (i < view.size() && view[i] == '(') {
      const std::size_t close = view.find(')', i);
      if (close == std::string_view::npos) return bad_format("incomplete key");
      if (!values.is_dict()) return bad_format("format requires a mapping");
      const Value* found = values.dict().find(view.substr(i + 1, close - i - 1));
      if (found == nullptr) {
        return bad_format("no key '" + printable(view.substr(i + 1, close - i - 1)) + "'");
      }
      value = *found;
      has_value = used_mapping = true;
      i = close + 1;
    }
    for (; i < view.size() && std::string_view("#0- +").find(view[i]) != std::string_view::npos;
         ++i) {
      if (view[i] == '-') spec.align = '<';
      if (view[i] == '0' && spec.align != '<') {
        spec.align = '=';
        spec.fill = "0";
      }
      if (view[i] == '#') spec.alternate = true;
      if (view[i] == '+' || (view[i] == ' ' && spec.sign != '+')) spec.sign = view[i];
    }
    if (spec.align == '<') spec.fill = " ";
    const auto read_size = [&]() -> Result<Int> {
      if (i >= view.size() || view[i] != '*') return read_number(view, i);
      ++i;
      QUIRE_ASSIGN_OR_RETURN(const Value size, next_value());
      if (!size.is_integral()) return bad_format("* wants int");
      return size.as_int();
    };
    QUIRE_ASSIGN_OR_RETURN(spec.width, read_size());
    if (i < view.size() && view[i] == '.') {
      ++i;
      QUIRE_ASSIGN_OR_RETURN(spec.precision, read_size());
    }
    if (i >= view.size()) return bad_format("incomplete format");
    spec.type = view[i++];
    if (spec.type == '%') {
      out.append_part(text, i - 1, i);
      continue;
    }
    if (std::string_view("sracdiuoxXeEfFgG").find(spec.type) == std::string_view::npos) {
      return bad_format(std::string("unsupported format character '") + spec.type + "'");
    }
    if (!has_value) {
      QUIRE_ASSIGN_OR_RETURN(value, next_value());
    }
    QUIRE_ASSIGN_OR_RETURN(const Text formatted, printf_value(value, spec, budget));
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * formatted.weight()));
    out.append(formatted);
  }
  const bool all_used =
      used >= count || used_mapping ||
      (!is_tuple && (values.is_dict() || values.is(Kind::kList) || values.is_undefined()));
  if (!all_used) return bad_format("not all arguments converted");
  return Value::string(std::move(out));
}

Result<Value> format_braces(const Value& pattern, const Args& args, Budget& budget) {
  const Text& text = pattern.text();
  const std::string_view view = text.view();
  QUIRE_RETURN_IF_ERROR(budget.scan(view.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + 2 * text.weight()));
  Text out;
  std::size_t automatic = 0;
  for (std::size_t i = 0; i < view.size();) {
    QUIRE_RETURN_IF_ERROR(budget.step(2 + args.keywords.size() / 8));
    const std::size_t brace = std::min(view.find_first_of("{}", i), view.size());
    out.append_part(text, i, brace);
    if (brace == view.size()) break;
    if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
      out.append_part(text, brace, brace + 1);
      i = brace + 2;
      continue;
    }
    if (view[brace] == '}') return bad_format("single '}'");
    const std::size_t close = view.find('}', brace);
    if (close == std::string_view::npos) return bad_format("expected '}'");
    std::string_view field = view.substr(brace + 1, close - brace - 1);
    if (field.find('{') != std::string_view::npos)
      return bad_format("nested fields are not supported");
    i = close + 1;
    std::string_view spec;
    if (const auto colon = field.find(':'); colon != std::string_view::npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = '\0';
    if (const auto mark = field.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != field.size()) return bad_format("bad conversion");
      conversion = field[mark + 1];
      field = field.substr(0, mark);
    }
    std::size_t end = std::min(field.find_first_of(".["), field.size());
    const std::string_view name = field.substr(0, end);
    Value value;
    const bool is_index = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_index) {
      std::size_t at = 0;
      const Int index = name.empty() ? static_cast<Int>(automatic++) : read_number(name, at);
      if (index >= static_cast<Int>(args.positional.size())) {
        return bad_format("replacement index out of range");
      }
      value = args.positional[static_cast<std::size_t>(index)];
    } else {
      const Value* found = args.keyword(name);
      if (found == nullptr) return bad_format("no argument '" + printable(name) + "'");
      value = *found;
    }
    while (end < field.size()) {
      const bool is_item = field[end] == '[';
      const std::size_t begin = end + 1;
      end = std::min(is_item ? field.find(']', begin) : field.find_first_of(".[", begin),
                     field.size());
      QUIRE_RETURN_IF_ERROR(budget.step());
      const std::string part(field.substr(begin, end - begin));
      if (is_item) {
        ++end;
        std::size_t at = 0;
        const bool numeric =
            !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        const Value key =
            numeric ? Value::integer(read_number(part, at)) : Value::string(part, true);
        QUIRE_ASSIGN_OR_RETURN(value, get_item(value, key, budget));
      } else {
        QUIRE_ASSIGN_OR_RETURN(value, get_attribute(value, part, budget));
      }
    }
    if (conversion != '\0' && conversion != 's' && conversion != 'r') {
      return bad_format(std::string("conversion '!") + conversion + "' is not supported");
    }
    if (conversion != '\0') {
      QUIRE_ASSIGN_OR_RETURN(Text converted,
                             conversion == 'r' ? to_repr(value, budget) : to_text(value, budget));
      value = Value::string(std::move(converted));
    }
    QUIRE_ASSIGN_OR_RETURN(const Text formatted, apply_spec(value, spec, budget));
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * formatted.weight()));
    out.append(formatted);
  }
  return Value::string(std::move(out), pattern.is_markup());
}

}  // namespace quire::jinja
