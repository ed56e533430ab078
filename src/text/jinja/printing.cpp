#include "text/jinja/printing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

// Collects a printout, charging the budget as it grows, so that shared structure cannot blow up.
class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  Text take() { return std::move(out_); }
  // Punctuation, digits, names: made here, so not template text.
  Status put(std::string_view bytes) {
    QUIRE_RETURN_IF_ERROR(budget_.bytes(2 * bytes.size()));
    out_.append(bytes, false);
    return {};
  }
  Status put(const Text& text) {
    QUIRE_RETURN_IF_ERROR(budget_.step());
    QUIRE_RETURN_IF_ERROR(budget_.scan(text.size()));
    QUIRE_RETURN_IF_ERROR(budget_.bytes(2 * text.weight()));
    out_.append(text);
    return {};
  }
  // Repeats f(code_point, bytes, provenance) over a text.
  template <typename F>
  Status each_code_point(const Text& text, F&& f) {
    QUIRE_RETURN_IF_ERROR(budget_.characters(2 * text.size()));
    // Most characters stay as they are, some become up to six: the worst is charged, so that
    // nothing is made before it is paid for.
    std::size_t grown = text.weight();
    for (const char c : text.view()) {
      const auto byte = static_cast<unsigned char>(c);
      grown += byte < 0x20 || byte >= 0x7f                   ? 5
               : byte == '"' || byte == '\'' || byte == '\\' ? 1
                                                             : 0;
    }
    QUIRE_RETURN_IF_ERROR(budget_.bytes(grown));
    text.for_each_run([&](std::string_view run, bool is_template) {
      for (std::size_t i = 0; i < run.size();) {
        const std::size_t begin = i;
        const char32_t c = next_code_point(run, i);
        f(c, run.substr(begin, i - begin), is_template);
      }
    });
    return {};
  }

 protected:
  Text out_;
  Budget& budget_;
};

void put_hex(std::string& out, char32_t c, int width) {
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4)
    out.push_back(kHex[(c >> shift) & 0xFU]);
}

class ReprPrinter : public Printer {
 public:
  using Printer::Printer;

  Status print(const Value& value, int depth) {
    QUIRE_RETURN_IF_ERROR(budget_.step());
    QUIRE_RETURN_IF_ERROR(check_value_depth(depth));
    switch (value.kind()) {
      case Kind::kUndefined:
        return put("Undefined");
      case Kind::kNone:
        return put("None");
      case Kind::kBool:
        return put(value.as_bool() ? "True" : "False");
      case Kind::kInt:
        return put(format_int(value.as_int()));
      case Kind::kFloat:
        return put(format_float(value.as_double()));
      case Kind::kString:
        return print_string(value);
      case Kind::kList:
        return print_items("[", value.items(), "]", depth);
      case Kind::kTuple:
        return print_items("(", value.items(), value.items().size() == 1 ? ",)" : ")", depth);
      case Kind::kView:
        QUIRE_RETURN_IF_ERROR(put(value.as<SequenceObject>().type_name));
        return print_items("([", value.items(), "])", depth);
      case Kind::kDict:
        return print_dict(value.dict(), depth);
      case Kind::kRange:
        return print_range(value.as<RangeObject>());
      case Kind::kNamespace:
        QUIRE_RETURN_IF_ERROR(put("<Namespace "));
        QUIRE_RETURN_IF_ERROR(print_dict(value.as<NamespaceObject>().attributes, depth));
        return put(">");
      case Kind::kMacro:
        return put("<Macro '" + value.as<MacroObject>().name + "'>");
      default:
        return Status::invalid_argument("a " + std::string(kind_name(value)) +
                                        " cannot be printed");
    }
  }

 private:
  Status print_string(const Value& value) {
    const std::string_view view = value.view();
    const bool has_single = view.find('\'') != std::string_view::npos;
    const char quote = has_single && view.find('"') == std::string_view::npos ? '"' : '\'';
    const std::string_view quotes = quote == '"' ? "\"" : "'";
    if (value.is_markup()) QUIRE_RETURN_IF_ERROR(put("Markup("));
    QUIRE_RETURN_IF_ERROR(put(quotes));
    QUIRE_RETURN_IF_ERROR(
        each_code_point(value.text(), [&](char32_t c, std::string_view bytes, bool is_template) {
          if (c == static_cast<char32_t>(quote) || c == '\\') {
            out_.append("\\", is_template);
            out_.append(bytes, is_template);
          } else if (c == '\n' || c == '\r' || c == '\t') {
            out_.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", is_template);
          } else if (c < 0x20 || c == 0x7F || (c > 0x7F && !is_printable(c))) {
            std::string escape = c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
            put_hex(escape, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
            out_.append(escape, is_template);
          } else {
            out_.append(bytes, is_template);
          }
        }));
    QUIRE_RETURN_IF_ERROR(put(quotes));
    return value.is_markup() ? put(")") : Status();
  }

  Status print_items(std::string_view open, const std::vector<Value>& items, std::string_view close,
                     int depth) {
    QUIRE_RETURN_IF_ERROR(put(open));
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) QUIRE_RETURN_IF_ERROR(put(", "));
      QUIRE_RETURN_IF_ERROR(print(items[i], depth + 1));
    }
    return put(close);
  }

  Status print_dict(const DictObject& dict, int depth) {
    QUIRE_RETURN_IF_ERROR(put("{"));
    bool is_first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!std::exchange(is_first, false)) QUIRE_RETURN_IF_ERROR(put(", "));
      QUIRE_RETURN_IF_ERROR(print(key, depth + 1));
      QUIRE_RETURN_IF_ERROR(put(": "));
      QUIRE_RETURN_IF_ERROR(print(value, depth + 1));
    }
    return put("}");
  }

  Status print_range(const RangeObject& range) {
    std::string out = "range(" + format_int(range.start) + ", " + format_int(range.stop);
    if (range.step != 1) out += ", " + format_int(range.step);
    return put(out + ")");
  }
};

class JsonPrinter : public Printer {
 public:
  JsonPrinter(const JsonFormat& format, Budget& budget) : Printer(budget), format_(format) {}

  Status print(const Value& value, int depth) {
    QUIRE_RETURN_IF_ERROR(budget_.step());
    QUIRE_RETURN_IF_ERROR(check_value_depth(depth));
    switch (value.kind()) {
      case Kind::kNone:
        return put("null");
      case Kind::kBool:
        return put(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return put(format_int(value.as_int()));
      case Kind::kFloat:
        return put(json_float(value.as_double()));
      case Kind::kString:
        return print_string(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return print_items(value.items(), depth);
      case Kind::kDict:
        return print_dict(value.dict(), depth);
      default:
        return Status::invalid_argument("object of type " + std::string(kind_name(value)) +
                                        " is not JSON serializable");
    }
  }

 private:
  static std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return format_float(value);
  }

  Status new_line(int depth) {
    if (!format_.has_indent) return {};
    QUIRE_RETURN_IF_ERROR(put("\n"));
    for (int i = 0; i < depth; ++i) QUIRE_RETURN_IF_ERROR(put(format_.indent));
    return {};
  }

  Status print_string(const Text& text) {
    QUIRE_RETURN_IF_ERROR(put("\""));
    QUIRE_RETURN_IF_ERROR(
        each_code_point(text, [&](char32_t c, std::string_view bytes, bool is_template) {
          out_.append(escaped(c, bytes), is_template);
        }));
    return put("\"");
  }

  std::string escaped(char32_t c, std::string_view bytes) const {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetter = "\"\\nrtfb";
    if (c < 0x80) {
      if (const auto i = kSpecial.find(bytes[0]); i != std::string_view::npos) {
        return {'\\', kLetter[i]};
      }
    }
    std::string out;
    if (c < 0x20 || (format_.ensure_ascii && c > 0x7E && c != 0x7F && c < 0x10000)) {
      out = "\\u";
      put_hex(out, c, 4);
    } else if (format_.ensure_ascii && c >= 0x10000) {
      out = "\\u";
      put_hex(out, 0xD800 + ((c - 0x10000) >> 10), 4);
      out += "\\u";
      put_hex(out, 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
    } else {
      out = bytes;
    }
    return out;
  }

  Status print_items(const std::vector<Value>& items, int depth) {
    if (items.empty()) return put("[]");
    QUIRE_RETURN_IF_ERROR(put("["));
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) QUIRE_RETURN_IF_ERROR(put(format_.item_separator));
      QUIRE_RETURN_IF_ERROR(new_line(depth + 1));
      QUIRE_RETURN_IF_ERROR(print(items[i], depth + 1));
    }
    QUIRE_RETURN_IF_ERROR(new_line(depth));
    return put("]");
  }

  Status print_dict(const DictObject& dict, int depth) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (format_.sort_keys) QUIRE_RETURN_IF_ERROR(sort_entries(entries));
    QUIRE_RETURN_IF_ERROR(put("{"));
    bool is_first = true;
    for (const auto* entry : entries) {
      if (!std::exchange(is_first, false)) QUIRE_RETURN_IF_ERROR(put(format_.item_separator));
      QUIRE_RETURN_IF_ERROR(new_line(depth + 1));
      QUIRE_RETURN_IF_ERROR(print_key(entry->first));
      QUIRE_RETURN_IF_ERROR(put(format_.key_separator));
      QUIRE_RETURN_IF_ERROR(print(entry->second, depth + 1));
    }
    QUIRE_RETURN_IF_ERROR(new_line(depth));
    return put("}");
  }

  Status sort_entries(std::vector<const std::pair<Value, Value>*>& entries) {
    Status failure;
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      const Result<bool> less = is_less(a->first, b->first, budget_);
      if (!less.ok()) failure = less.status();
      return less.ok() && *less;
    });
    return failure;
  }

  Status print_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return print_string(key.text());
      case Kind::kNone:
        return put("\"null\"");
      case Kind::kBool:
        return put(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::kInt:
        return put("\"" + format_int(key.as_int()) + "\"");
      case Kind::kFloat:
        return put("\"" + json_float(key.as_double()) + "\"");
      default:
        return Status::invalid_argument("JSON keys must be str, int, float, bool or None, not " +
                                        std::string(kind_name(key)));
    }
  }

  const JsonFormat& format_;
};

}  // namespace

std::string format_int(Int value) {
  std::string out;
  const bool negative = value < 0;
  do {
    const int digit = static_cast<int>(value % 10);
    out.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    value /= 10;
  } while (value != 0);
  if (negative) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view scientific(buffer.data(),
                                    static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = scientific.find('e');
  int exponent = 0;
  const std::size_t digits = e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(scientific.data() + digits, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string out(buffer.data(), fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

Result<Text> to_text(const Value& value, Budget& budget) {
  if (value.is_undefined()) return Text();
  if (value.is_string()) return value.text();
  return to_repr(value, budget);
}

Result<Text> to_repr(const Value& value, Budget& budget) {
  ReprPrinter printer(budget);
  QUIRE_RETURN_IF_ERROR(printer.print(value, 1));
  return printer.take();
}

Result<Text> to_json(const Value& value, const JsonFormat& format, Budget& budget) {
  JsonPrinter printer(format, budget);
  QUIRE_RETURN_IF_ERROR(printer.print(value, 0));
  return printer.take();
}

}  // namespace quire::jinja
