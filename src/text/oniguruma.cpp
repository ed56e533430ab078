// Oniguruma's Ruby syntax in PCRE2's.
#include <cctype>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/pcre2_pattern.h"

namespace quire {

namespace {

// What Oniguruma means by \s, \w and \d, as the inside of a class; PCRE2's \s has U+180E too and
// its \w has no marks.
constexpr std::string_view kSpaceClass = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kWordClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kDigitClass = R"(\p{Nd})";

class Translator {
 public:
  explicit Translator(std::string_view regex) : regex_(regex) {}

  Result<std::string> run() {
    while (at_ < regex_.size()) {
      if (regex_[at_] == '[') {
        QUIRE_RETURN_IF_ERROR(translate_class());
      } else if (regex_[at_] == '\\') {
        QUIRE_RETURN_IF_ERROR(translate_escape(/*in_class=*/false));
      } else if (regex_.substr(at_).starts_with("(?")) {
        QUIRE_RETURN_IF_ERROR(check_group());
        out_ += regex_[at_++];
      } else if (regex_.substr(at_).starts_with("}+") || regex_.substr(at_).starts_with("(*")) {
        return refuse(regex_.substr(at_, 2));
      } else {
        out_ += regex_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  Status refuse(std::string_view what) const {
    return Status::unimplemented(
        fmt::format("the regular expression \"{}\" uses \"{}\", which is not supported",
                    printable(regex_), what),
        "patterns with \\p{..}, \\s, \\d, \\w, classes, groups and look-around are");
  }

  // Groups that mean the same in both: (?: (?= (?! (?> (?<= (?<! and (?i) or (?i: alone.
  Status check_group() const {
    const std::string_view rest = regex_.substr(at_ + 2);
    for (const std::string_view known : {":", "=", "!", ">", "<=", "<!", "i)", "i:", "-i:"}) {
      if (rest.starts_with(known)) return {};
    }
    return refuse(regex_.substr(at_, 4));
  }

  void append_class(std::string_view inside, bool in_class, bool negated) {
    if (in_class) {
      out_ += inside;
    } else {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", inside);
    }
  }

  Status translate_escape(bool in_class) {
    const std::string_view escape = regex_.substr(at_, 2);
    if (escape.size() < 2) {
      return Status::bad_model(
          fmt::format("the regular expression \"{}\" ends in \\", printable(regex_)));
    }
    at_ += 2;
    switch (escape[1]) {
      case 's':
      case 'S':
      case 'w':
      case 'W':
      case 'd':
      case 'D': {
        const bool negated = std::isupper(static_cast<unsigned char>(escape[1])) != 0;
        if (negated && in_class) return refuse(escape);
        const char kind = static_cast<char>(std::tolower(static_cast<unsigned char>(escape[1])));
        append_class(kind == 's'   ? kSpaceClass
                     : kind == 'w' ? kWordClass
                                   : kDigitClass,
                     in_class, negated);
        return {};
      }
      case 'p':
      case 'P':
      case 'x':
        if (regex_.substr(at_).starts_with('{')) {
          const std::size_t end = regex_.find('}', at_);
          if (end == std::string_view::npos) return refuse(escape);
          out_ += escape;
          out_ += regex_.substr(at_, end + 1 - at_);
          at_ = end + 1;
          return {};
        }
        return refuse(escape);
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'v':
        out_ += escape[1] == 'v' ? std::string_view("\\x0B") : escape;
        return {};
      case 'u': {
        const std::string_view digits = regex_.substr(at_, 4);
        if (digits.size() != 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
          return refuse(escape);
        }
        out_ += fmt::format("\\x{{{}}}", digits);
        at_ += 4;
        return {};
      }
      case 'z':
      case 'A':
        if (in_class) return refuse(escape);
        out_ += escape;
        return {};
      default:
        // A letter or digit is a construct of its own in one syntax or the other.
        if (std::isalnum(static_cast<unsigned char>(escape[1])) != 0) return refuse(escape);
        out_ += escape;
        return {};
    }
  }

  // A class. One within another only adds to it (unless negated), so its brackets go.
  Status translate_class() {
    int depth = 0;
    do {
      const std::string_view rest = regex_.substr(at_);
      if (rest.starts_with("[:") || rest.starts_with("&&")) return refuse(rest.substr(0, 2));
      if (rest.starts_with('[')) {
        if (depth > 0 && rest.starts_with("[^")) return refuse("[^ within a class");
        if (depth == 0) out_ += '[';
        ++depth;
        ++at_;
        if (depth == 1 && rest.starts_with("[^")) {
          out_ += '^';
          ++at_;
        }
        // A bracket that comes first is a character in one of the syntaxes only.
        if (regex_.substr(at_).starts_with(']')) return refuse("[]");
      } else if (rest.starts_with(']')) {
        --depth;
        ++at_;
        if (depth == 0) out_ += ']';
      } else if (rest.starts_with('\\')) {
        QUIRE_RETURN_IF_ERROR(translate_escape(/*in_class=*/true));
      } else {
        out_ += regex_[at_++];
      }
    } while (depth > 0 && at_ < regex_.size());
    if (depth > 0) {
      return Status::bad_model(
          fmt::format("the regular expression \"{}\" lacks a ]", printable(regex_)));
    }
    return {};
  }

  std::string_view regex_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> oniguruma_to_pcre2(std::string_view regex) { return Translator(regex).run(); }

}  // namespace quire
