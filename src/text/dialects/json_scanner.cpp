#include "text/dialects/json_scanner.h"

#include <fmt/format.h>

#include "text/jinja/unicode.h"

namespace quire {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_of_number(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

}  // namespace

void append_json_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
  }
}

void append_json_escaped(std::string& out, std::string_view text) {
  for (const char c : text) append_json_escaped(out, c);
}

JsonScanner::Step JsonScanner::end_value() {
  if (open_.empty()) return Step::kDone;
  place_ = Place::kAfter;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::open(bool object) {
  if (open_.size() == kMaxDepth) return Step::kBad;
  open_.push_back(object);
  place_ = object ? Place::kKeyOrEnd : Place::kItemOrEnd;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::close(bool object) {
  if (open_.empty() || open_.back() != object) return Step::kBad;
  open_.pop_back();
  return end_value();
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  switch (c) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      place_ = Place::kString;
      is_key_ = false;
      return Step::kMore;
    case 't':
      word_ = "rue";
      break;
    case 'f':
      word_ = "alse";
      break;
    case 'n':
      word_ = "ull";
      break;
    default:
      if (c != '-' && (c < '0' || c > '9')) return Step::kBad;
      place_ = Place::kNumber;
      return Step::kMore;
  }
  place_ = Place::kWord;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::feed(char c) {
  switch (place_) {
    case Place::kValue:
      return is_json_space(c) ? Step::kMore : begin_value(c);
    case Place::kItemOrEnd:
      if (is_json_space(c)) return Step::kMore;
      return c == ']' ? close(false) : begin_value(c);
    case Place::kKey:
    case Place::kKeyOrEnd:
      if (is_json_space(c)) return Step::kMore;
      if (c == '}' && place_ == Place::kKeyOrEnd) return close(true);
      if (c != '"') return Step::kBad;
      place_ = Place::kString;
      is_key_ = true;
      return Step::kMore;
    case Place::kColon:
      if (is_json_space(c)) return Step::kMore;
      if (c != ':') return Step::kBad;
      place_ = Place::kValue;
      return Step::kMore;
    case Place::kAfter:
      if (is_json_space(c)) return Step::kMore;
      if (c == '}' || c == ']') return close(c == '}');
      if (c != ',') return Step::kBad;
      place_ = open_.back() ? Place::kKey : Place::kValue;
      return Step::kMore;
    case Place::kString:
      if (c == '\\') place_ = Place::kEscape;
      if (c != '"') return Step::kMore;
      if (!is_key_) return end_value();
      place_ = Place::kColon;
      return Step::kMore;
    case Place::kEscape:
      if (c == 'u') {
        hex_left_ = 4;
        place_ = Place::kHex;
        return Step::kMore;
      }
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) return Step::kBad;
      place_ = Place::kString;
      return Step::kMore;
    case Place::kHex:
      if (hex_value(c) < 0) return Step::kBad;
      if (--hex_left_ == 0) place_ = Place::kString;
      return Step::kMore;
    case Place::kNumber:
      if (is_of_number(c)) return Step::kMore;
      if (open_.empty()) return Step::kDoneBefore;
      place_ = Place::kAfter;
      return feed(c);
    case Place::kWord:
      if (c != word_.front()) return Step::kBad;
      word_.remove_prefix(1);
      return word_.empty() ? end_value() : Step::kMore;
  }
  return Step::kBad;
}

void QuotedString::add_code_point(std::uint32_t code, std::string& out) {
  const bool is_high = code >= 0xD800 && code < 0xDC00;
  const bool is_low = code >= 0xDC00 && code < 0xE000;
  if (high_ != 0 && is_low) {
    jinja::append_utf8(out, 0x10000 + ((high_ - 0xD800) << 10) + (code - 0xDC00));
    high_ = 0;
    return;
  }
  if (high_ != 0) jinja::append_utf8(out, kReplacement);
  high_ = is_high ? code : 0;
  if (is_high) return;
  jinja::append_utf8(out, is_low || code > 0x10FFFF ? kReplacement : code);
}

QuotedString::Step QuotedString::feed_digit(char c, std::string& out) {
  const int value = hex_value(c);
  if (value < 0) return Step::kBad;
  code_ = code_ * 16 + static_cast<std::uint32_t>(value);
  pending_ += c;
  if (--digits_left_ == 0) {
    pending_.clear();
    add_code_point(code_, out);
  }
  return Step::kMore;
}

QuotedString::Step QuotedString::feed_escape(char c, std::string& out) {
  constexpr std::string_view kNames = "bfnrtav0";
  constexpr std::string_view kValues("\b\f\n\r\t\a\v\0", 8);
  const std::size_t known = (python_ ? kNames : kNames.substr(0, 5)).find(c);
  if (c == 'u' || (python_ && (c == 'x' || c == 'U'))) {
    digits_left_ = c == 'u' ? 4 : c == 'x' ? 2 : 8;
    code_ = 0;
    escape_ = false;
    pending_ += c;
    return Step::kMore;
  }
  if (high_ != 0) jinja::append_utf8(out, kReplacement);
  high_ = 0;
  if (known != std::string_view::npos) {
    out += kValues[known];
  } else if (c == '"' || c == '\\' || (c == '/' && !python_) || (c == '\'' && python_)) {
    out += c;
  } else if (!python_) {
    return Step::kBad;
  } else if (c != '\n') {  // a line that goes on
    out += '\\';
    out += c;
  }
  escape_ = false;
  pending_.clear();
  return Step::kMore;
}

QuotedString::Step QuotedString::feed(char c, std::string& out) {
  if (digits_left_ > 0) return feed_digit(c, out);
  if (escape_) return feed_escape(c, out);
  if (c == '\\') {
    escape_ = true;
    pending_ = "\\";
    return Step::kMore;
  }
  if (high_ != 0) jinja::append_utf8(out, kReplacement);
  high_ = 0;
  if (c == quote_) return Step::kDone;
  out += c;
  return Step::kMore;
}

}  // namespace quire
