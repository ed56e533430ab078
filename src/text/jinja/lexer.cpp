#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "text/jinja/unicode.h"
#include "text/utf8.h"

namespace quire::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), text_(source_) {}

  Result<std::vector<Token>> run() {
    while (pos_ < text_.size()) QUIRE_RETURN_IF_ERROR(lex_root());
    push(TokenType::kEnd, {});
    return std::move(tokens_);
  }

 private:
  bool at(std::string_view word) const { return text_.compare(pos_, word.size(), word) == 0; }
  char peek(std::size_t ahead = 0) const {
    return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
  }

  void push(TokenType type, std::string text) {
    tokens_.push_back({type, line_, std::move(text), 0, 0});
  }

  // Moves to `end`, counting lines and noting whether a line starts there.
  void advance(std::size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    pos_ = end;
    line_starting_ = end > 0 && text_[end - 1] == '\n';
  }

  std::size_t skip_space(std::size_t i) const {
    while (i < text_.size()) {
      std::size_t next = i;
      if (!is_space(next_code_point(text_, next))) break;
      i = next;
    }
    return i;
  }

  // Emits text_[begin, end) in front of a tag, stripped as the tag's sign and lstrip_blocks say.
  void push_data(std::size_t begin, std::size_t end, char sign, bool is_variable) {
    std::string_view data = std::string_view(text_).substr(begin, end - begin);
    if (sign == '-') {
      std::size_t stop = data.size();
      while (stop > 0) {
        const std::size_t start = previous_start(data, stop);
        std::size_t i = start;
        if (!is_space(next_code_point(data, i))) break;
        stop = start;
      }
      data = data.substr(0, stop);
    } else if (sign != '+' && !is_variable) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if (line_begin > 0 || line_starting_) {
        if (skip_space(begin + line_begin) >= end) data = data.substr(0, line_begin);
      }
    }
    if (!data.empty()) push(TokenType::kData, std::string(data));
  }

  // What follows `tag_end` ("%}" or "#}") at its position: the end of the tag including the white
  // space that it eats, given the sign in front of it.
  std::size_t end_of_tag(std::size_t tag_end, char sign) const {
    std::size_t end = tag_end + 2;
    if (sign == '-') return skip_space(end);
    if (sign != '+' && end < text_.size() && text_[end] == '\n') ++end;
    return end;
  }

  Status lex_root() {
    std::size_t open = pos_;
    while ((open = text_.find('{', open)) != std::string_view::npos) {
      const char kind = open + 1 < text_.size() ? text_[open + 1] : '\0';
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++open;
    }
    if (open == std::string_view::npos) {
      push(TokenType::kData, std::string(text_.substr(pos_)));
      advance(text_.size());
      return {};
    }
    const char kind = text_[open + 1];
    const char sign = open + 2 < text_.size() ? text_[open + 2] : '\0';
    const bool is_signed = sign == '-' || sign == '+';
    const std::size_t inside = open + 2 + (is_signed ? 1 : 0);

    push_data(pos_, open, is_signed ? sign : '\0', kind == '{');
    advance(open);
    if (kind == '%') {
      if (const std::size_t raw = match_raw_begin(inside); raw != 0) {
        advance(raw);
        return lex_raw();
      }
    }
    if (kind == '#') {
      advance(inside);
      return lex_comment();
    }
    push(kind == '%' ? TokenType::kBlockBegin : TokenType::kVariableBegin, {});
    advance(inside);
    return lex_tag(kind == '%');
  }

  // The end of "raw %}" where it stands at `i`, else 0. trim_blocks does not apply to it.
  std::size_t match_raw_begin(std::size_t i) const {
    i = skip_space(i);
    if (text_.compare(i, 3, "raw") != 0) return 0;
    i = skip_space(i + 3);
    if (text_.compare(i, 3, "-%}") == 0) return skip_space(i + 3);
    return text_.compare(i, 2, "%}") == 0 ? i + 2 : 0;
  }

  Status lex_raw() {
    const int begin_line = line_;
    std::size_t open = pos_;
    if (open == text_.size()) return {};  // as in Jinja, nothing is missing then
    while ((open = text_.find("{%", open)) != std::string_view::npos) {
      std::size_t i = open + 2;
      const char sign = i < text_.size() ? text_[i] : '\0';
      const bool is_signed = sign == '-' || sign == '+';
      i = skip_space(is_signed ? i + 1 : i);
      if (text_.compare(i, 6, "endraw") == 0) {
        i = skip_space(i + 6);
        char end_sign = i < text_.size() ? text_[i] : '\0';
        if (end_sign != '-' && end_sign != '+') end_sign = '\0';
        if (end_sign != '\0') ++i;
        if (text_.compare(i, 2, "%}") == 0) {
          push_data(pos_, open, is_signed ? sign : '\0', false);
          advance(end_of_tag(i, end_sign));
          return {};
        }
      }
      open += 2;
    }
    return syntax_error(begin_line, "missing end of raw directive");
  }

  Status lex_comment() {
    if (pos_ == text_.size()) return {};
    const std::size_t close = text_.find("#}", pos_);
    if (close == std::string_view::npos) {
      return syntax_error(line_, "missing end of comment tag");
    }
    advance(end_of_tag(close, close > pos_ ? text_[close - 1] : '\0'));
    return {};
  }

  Status lex_tag(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    std::string brackets;  // the closing brackets that are due
    while (pos_ < text_.size()) {
      if (brackets.empty()) {
        const char sign = peek();
        const bool is_signed = sign == '-' || (is_block && sign == '+');
        const std::size_t tag_end = pos_ + (is_signed ? 1 : 0);
        if (text_.compare(tag_end, 2, close) == 0) {
          push(is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd, {});
          if (is_block) {
            advance(end_of_tag(tag_end, is_signed ? sign : '\0'));
          } else {
            advance(is_signed ? skip_space(tag_end + 2) : tag_end + 2);
          }
          return {};
        }
      }
      if (const std::size_t end = skip_space(pos_); end != pos_) {
        advance(end);
        continue;
      }
      QUIRE_RETURN_IF_ERROR(lex_token(brackets));
    }
    return {};  // the parser reports what is missing
  }

  Status lex_token(std::string& brackets) {
    const char c = peek();
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    std::size_t end = pos_;
    while (end < text_.size()) {
      std::size_t next = end;
      if (!is_word(next_code_point(text_, next))) break;
      end = next;
    }
    if (end > pos_) {
      std::size_t first = pos_;
      if (!is_identifier_start(next_code_point(text_, first))) {
        return syntax_error(line_, "invalid character in identifier");
      }
      push(TokenType::kName, std::string(text_.substr(pos_, end - pos_)));
      advance(end);
      return {};
    }
    for (const std::string_view op : kOperators) {
      if (!at(op)) continue;
      if (c == '(') brackets.push_back(')');
      if (c == '[') brackets.push_back(']');
      if (c == '{') brackets.push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (brackets.empty() || brackets.back() != c) {
          return syntax_error(line_, std::string("unexpected '") + c + "'");
        }
        brackets.pop_back();
      }
      push(TokenType::kOperator, std::string(op));
      advance(pos_ + op.size());
      return {};
    }
    std::size_t next = pos_;
    next_code_point(text_, next);
    return syntax_error(
        line_, "unexpected character '" + std::string(text_.substr(pos_, next - pos_)) + "'");
  }

  // Digits with single underscores between them; the end of the run that starts at `i`.
  std::size_t digits_end(std::size_t i, int base) const {
    while (i < text_.size()) {
      if (digit_value(text_[i]) < base) {
        ++i;
      } else if (text_[i] == '_' && i + 1 < text_.size() && digit_value(text_[i + 1]) < base) {
        i += 2;
      } else {
        break;
      }
    }
    return i;
  }

  Status lex_number() {
    const bool after_dot = pos_ > 0 && text_[pos_ - 1] == '.';
    if (!after_dot) {
      std::size_t end = digits_end(pos_, 10);
      bool is_float = false;
      if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
        end = digits_end(end + 1, 10);
        is_float = true;
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) {
          ++exponent;
        }
        if (exponent < text_.size() && is_digit(text_[exponent])) {
          end = digits_end(exponent, 10);
          is_float = true;
        }
      }
      if (is_float) return push_float(end);
    }
    int base = 10;
    std::size_t begin = pos_;
    if (peek() == '0') {
      const char mark = static_cast<char>(peek(1) | 0x20);
      const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
      const std::size_t first = pos_ + 2 + (peek(2) == '_' ? 1 : 0);
      if (marked != 0 && first < text_.size() && digit_value(text_[first]) < marked) {
        base = marked;
        begin = first;
      }
    }
    // A decimal that starts with 0 is zeros only: "007" is the tokens 00 and 7, and no expression.
    const bool zeros = base == 10 && peek() == '0';
    const std::size_t end = digits_end(begin, zeros ? 1 : base);
    Int value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (text_[i] == '_') continue;
      if (__builtin_mul_overflow(value, static_cast<Int>(base), &value) ||
          __builtin_add_overflow(value, static_cast<Int>(digit_value(text_[i])), &value)) {
        return syntax_error(line_, "integer of more than 128 bits");
      }
    }
    push(TokenType::kInt, std::string(text_.substr(pos_, end - pos_)));
    tokens_.back().integer = value;
    advance(end);
    return {};
  }

  Status push_float(std::size_t end) {
    std::string digits(text_.substr(pos_, end - pos_));
    std::erase(digits, '_');
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc{}) return syntax_error(line_, "float out of range: " + digits);
    push(TokenType::kFloat, std::move(digits));
    tokens_.back().number = value;
    advance(end);
    return {};
  }

  Status lex_string(char quote) {
    std::size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return syntax_error(line_, "string without its closing quote");
    QUIRE_ASSIGN_OR_RETURN(std::string value,
                           unescape(text_.substr(pos_ + 1, end - pos_ - 1), line_));
    push(TokenType::kString, std::move(value));
    advance(end + 1);
    return {};
  }

  std::string source_;
  std::string_view text_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Status syntax_error(int line, const std::string& what) {
  return Status::invalid_argument("line " + std::to_string(line) + ": " + what);
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (!is_valid_utf8(source)) return Status::invalid_argument("the template is not valid UTF-8");
  return Lexer(source).run();
}

Result<std::string> unescape(std::string_view literal, int line) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv";
  constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  out.reserve(literal.size());
  for (std::size_t i = 0; i < literal.size();) {
    if (literal[i] != '\\' || i + 1 >= literal.size()) {
      out.push_back(literal[i++]);
      continue;
    }
    const char c = literal[i + 1];
    i += 2;
    if (const auto plain = kPlain.find(c); plain != std::string_view::npos) {
      out.push_back(kMeaning[plain]);
    } else if (c == '\n') {
      continue;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      --i;
      for (int n = 0; n < 3 && i < literal.size() && literal[i] >= '0' && literal[i] <= '7'; ++n) {
        value = value * 8 + static_cast<char32_t>(literal[i++] - '0');
      }
      append_utf8(out, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t width = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      std::uint64_t value = 0;
      std::size_t n = 0;
      for (; n < width && i + n < literal.size() && digit_value(literal[i + n]) < 16; ++n) {
        value = value * 16 + static_cast<std::uint64_t>(digit_value(literal[i + n]));
      }
      if (n < width || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return syntax_error(line, std::string("invalid escape \\") + c + " in a string");
      }
      append_utf8(out, static_cast<char32_t>(value));
      i += width;
    } else if (c == 'N') {
      return syntax_error(line, "escapes by character name (\\N{...}) are not supported");
    } else if (static_cast<unsigned char>(c) < 0x80) {
      out.push_back('\\');
      out.push_back(c);
    } else {
      // Python first writes a non-ASCII character as its own escape, which the backslash in front
      // of it then protects: "\é" becomes the four characters \xe9.
      std::size_t end = i - 1;
      const char32_t code = next_code_point(literal, end);
      constexpr std::string_view kHexDigits = "0123456789abcdef";
      const int width = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
      out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
      for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) {
        out.push_back(kHexDigits[(code >> shift) & 0xFU]);
      }
      i = end;
    }
  }
  return out;
}

}  // namespace quire::jinja
