#include "text/grammar/regex_parser.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

namespace quire {

namespace {

using Kind = RegexNode::Kind;

class RegexParser {
 public:
  RegexParser(SourceCursor& cursor, const RegexOptions& options, const GrammarLimits& limits)
      : cursor_(&cursor),
        limits_(&limits),
        ecma_(options.dialect == RegexOptions::Dialect::kEcma),
        flags_{options.ignore_case, options.dot_all} {}

  Result<RegexTree> run() {
    QUIRE_ASSIGN_OR_RETURN(tree_.root, parse_alternatives());
    if (!cursor_->at_end()) return cursor_->expected("the end, for no group is open");
    return std::move(tree_);
  }

 private:
  struct Flags {
    bool ignore_case = false;
    bool dot_all = false;
  };

  std::size_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return tree_.nodes.size() - 1;
  }

  std::size_t add_set(std::size_t position, const CharSet& set) {
    RegexNode node{.kind = Kind::kChars, .position = position};
    node.set = flags_.ignore_case ? set.with_both_cases() : set;
    return add(std::move(node));
  }
  std::size_t add_char(std::size_t position, char32_t code) {
    return add_set(position, CharSet{{code, code}});
  }
  std::size_t add_mark(std::size_t position, Kind kind) {
    return add({.kind = kind, .position = position});
  }

  Status unsupported(std::size_t position, std::string_view what,
                     std::string_view remedy = "say what is wanted without it") const {
    return cursor_->unsupported_at(position, fmt::format("{} is not supported", what), remedy);
  }

  Result<std::size_t> parse_alternatives() {
    if (++nesting_ > limits_->max_source_nesting) {
      return Status::resource_exhausted(
          fmt::format("groups of the regular expression are nested more than {} deep (limit "
                      "max_source_nesting)",
                      limits_->max_source_nesting),
          "use fewer groups");
    }
    const Flags outside = flags_;
    RegexNode node{.kind = Kind::kAlternative, .position = cursor_->position()};
    do {
      QUIRE_ASSIGN_OR_RETURN(const std::size_t part, parse_sequence());
      node.children.push_back(part);
    } while (cursor_->take_if("|"));
    flags_ = outside;
    --nesting_;
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  Result<std::size_t> parse_sequence() {
    RegexNode node{.kind = Kind::kSequence, .position = cursor_->position()};
    while (!cursor_->at_end() && cursor_->peek() != '|' && cursor_->peek() != ')') {
      QUIRE_ASSIGN_OR_RETURN(const std::optional<std::size_t> atom, parse_atom());
      if (!atom) continue;
      QUIRE_ASSIGN_OR_RETURN(const std::size_t part, parse_quantifier(*atom));
      node.children.push_back(part);
    }
    return add(std::move(node));
  }

  // Whether {m}, {m,}, {m,n} or {,n} is here: else a brace is a character like others.
  bool at_counts() const {
    const std::string_view rest = cursor_->rest();
    std::size_t i = 1;
    const auto skip_digits = [&] {
      const std::size_t begin = i;
      while (i < rest.size() && rest[i] >= '0' && rest[i] <= '9') ++i;
      return i > begin;
    };
    const bool has_min = skip_digits();
    bool has_max = false;
    if (i < rest.size() && rest[i] == ',') {
      ++i;
      has_max = skip_digits();
    }
    return i < rest.size() && rest[i] == '}' && (has_min || (has_max && !ecma_));
  }

  Result<std::size_t> parse_quantifier(std::size_t atom) {
    const std::size_t position = cursor_->position();
    RegexNode node{.kind = Kind::kRepeat, .max = RegexNode::kNoMax, .position = position};
    const char32_t sign = cursor_->peek();
    if (sign == '{' && at_counts()) {
      cursor_->take();
      if (cursor_->peek() != ',') {
        QUIRE_ASSIGN_OR_RETURN(node.min, take_number(*cursor_));
      }
      node.max = node.min;
      if (cursor_->take_if(",")) {
        node.max = RegexNode::kNoMax;
        if (cursor_->peek() != '}') {
          QUIRE_ASSIGN_OR_RETURN(node.max, take_number(*cursor_));
        }
      }
      cursor_->take();  // }
      if (node.max < node.min) {
        return cursor_->wrong_at(position, "a repetition whose numbers are not in order");
      }
    } else if (sign == '*' || sign == '+' || sign == '?') {
      cursor_->take();
      node.min = sign == '+' ? 1 : 0;
      if (sign == '?') node.max = 1;
    } else {
      return atom;
    }
    if (tree_.nodes[atom].kind == Kind::kLookAhead) {
      return unsupported(position, "a look-ahead that is repeated");
    }
    cursor_->take_if("?");  // lazy: the same texts
    if (cursor_->peek() == '+') {
      return ecma_ ? cursor_->expected("something to repeat")
                   : unsupported(position, "a possessive quantifier");
    }
    if (cursor_->peek() == '*' || cursor_->peek() == '?' ||
        (cursor_->peek() == '{' && at_counts())) {
      return cursor_->expected("something to repeat");
    }
    node.children = {atom};
    return add(std::move(node));
  }

  // nullopt: something that is no part of the pattern, as (?i).
  Result<std::optional<std::size_t>> parse_atom() {
    const std::size_t position = cursor_->position();
    const char32_t c = cursor_->peek();
    if (c == '*' || c == '+' || c == '?' || (c == '{' && at_counts())) {
      return cursor_->expected("something to repeat");
    }
    if (c == '(') return parse_group();
    if (c == '[') {
      QUIRE_ASSIGN_OR_RETURN(const CharSet set, parse_class());
      return std::optional(add_set(position, set));
    }
    if (c == '\\') return parse_escaped_atom();
    cursor_->take();
    if (c == '^') return std::optional(add_mark(position, Kind::kBegin));
    if (c == '$') return std::optional(add_mark(position, Kind::kEnd));
    if (c == '.') {
      const CharSet line_ends =
          ecma_ ? CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}} : CharSet{{'\n', '\n'}};
      RegexNode node{.kind = Kind::kChars, .position = position};
      node.set = flags_.dot_all ? CharSet::all() : ~line_ends;
      return std::optional(add(std::move(node)));
    }
    return std::optional(add_char(position, c));
  }

  Result<std::optional<std::size_t>> parse_group() {
    const std::size_t position = cursor_->position();
    cursor_->take();
    const Flags outside = flags_;
    bool look = false;
    bool negative = false;
    if (cursor_->take_if("?")) {
      if (cursor_->looking_at("<=") || cursor_->looking_at("<!")) {
        return unsupported(position, "look-behind");
      }
      if (cursor_->looking_at(">")) return unsupported(position, "an atomic group");
      if (cursor_->looking_at("(")) return unsupported(position, "a conditional group");
      if (cursor_->looking_at("P=") || cursor_->looking_at("P>") || cursor_->looking_at("R")) {
        return unsupported(position, "a reference to a group");
      }
      if (cursor_->take_if("=")) {
        look = true;
      } else if (cursor_->take_if("!")) {
        look = negative = true;
      } else if (cursor_->take_if("<") || cursor_->take_if("P<")) {
        while (cursor_->peek() != '>') {
          if (cursor_->at_end()) return cursor_->expected("\">\" behind the group's name");
          cursor_->take();
        }
        cursor_->take();
      } else if (!cursor_->take_if(":")) {
        QUIRE_ASSIGN_OR_RETURN(const bool whole_group, parse_flags());
        if (!whole_group) return std::optional<std::size_t>();  // (?i): up to the group's end
      }
    }
    QUIRE_ASSIGN_OR_RETURN(std::size_t inside, parse_alternatives());
    flags_ = outside;
    if (!cursor_->take_if(")")) {
      return cursor_->expected_at(cursor_->position(), "\")\" for the group that is open");
    }
    if (look) {
      RegexNode node{.kind = Kind::kLookAhead, .negative = negative, .position = position};
      node.children = {inside};
      inside = add(std::move(node));
    }
    return std::optional(inside);
  }

  // Behind "(?": whether a group with these flags follows, rather than all that comes.
  Result<bool> parse_flags() {
    bool on = true;
    while (true) {
      const std::size_t position = cursor_->position();
      const char32_t c = cursor_->take();
      if (c == ':') return true;
      if (c == ')') return false;
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        flags_.ignore_case = on;
      } else if (c == 's') {
        flags_.dot_all = on;
      } else if (c == 'u' || c == 'a') {
        continue;
      } else if (c == 'm' || c == 'x' || c == 'U') {
        return unsupported(position, fmt::format("flag {}", static_cast<char>(c)));
      } else {
        return cursor_->expected_at(position, "\":\", \"=\", \"!\", \"<name>\" or flags");
      }
    }
  }

  Result<std::optional<std::size_t>> parse_escaped_atom() {
    const std::size_t position = cursor_->position();
    cursor_->take();
    const char32_t c = cursor_->peek();
    if (c == 'b' || c == 'B') return unsupported(position, "\\b, a word's boundary,");
    if (c >= '1' && c <= '9') return unsupported(position, "a reference to a group");
    if (c == 'k' || c == 'g') return unsupported(position, "a reference to a group");
    if (!ecma_ && (c == 'A' || c == 'z' || c == 'Z')) {
      cursor_->take();
      return std::optional(add_mark(position, c == 'A' ? Kind::kBegin : Kind::kEnd));
    }
    cursor_->go_to(position);
    QUIRE_ASSIGN_OR_RETURN(const Escape escape, parse_escape());
    return std::optional(escape.set ? add_set(position, *escape.set)
                                    : add_char(position, escape.code));
  }

  struct Escape {
    std::optional<CharSet> set;  // else the one character:
    char32_t code = 0;
  };

  Result<Escape> parse_escape() {
    const std::size_t position = cursor_->position();
    cursor_->take();
    const char32_t c = cursor_->take();
    const CharSet space = ecma_ ? CharSet::ecma_space() : CharSet::ascii_space();
    switch (c) {
      case SourceCursor::kEnd:
        return cursor_->expected("a character behind the backslash");
      case 'd':
        return Escape{CharSet::ascii_digits()};
      case 'D':
        return Escape{~CharSet::ascii_digits()};
      case 'w':
        return Escape{CharSet::ascii_word()};
      case 'W':
        return Escape{~CharSet::ascii_word()};
      case 's':
        return Escape{space};
      case 'S':
        return Escape{~space};
      case 'p':
      case 'P':
        return parse_property(c == 'P', position);
      case 'n':
        return Escape{{}, '\n'};
      case 'r':
        return Escape{{}, '\r'};
      case 't':
        return Escape{{}, '\t'};
      case 'v':
        return Escape{{}, '\v'};
      case 'f':
        return Escape{{}, '\f'};
      case '0':
        return Escape{{}, 0};
      case 'a':
        if (!ecma_) return Escape{{}, '\a'};
        break;
      case 'e':
        if (!ecma_) return Escape{{}, 0x1B};
        break;
      case 'c': {
        const char32_t letter = cursor_->peek() | 0x20;
        if (letter < 'a' || letter > 'z') return cursor_->expected("a letter behind \\c");
        cursor_->take();
        return Escape{{}, letter - 'a' + 1};
      }
      case 'x':
      case 'u':
      case 'U':
        return parse_code_escape(c);
      default:
        break;
    }
    const bool letter_or_digit =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter_or_digit) {
      return unsupported(position, fmt::format("\\{}", static_cast<char>(c)),
                         "escape only what has a meaning of its own");
    }
    return Escape{{}, c};
  }

  Result<Escape> parse_code_escape(char32_t kind) {
    const std::size_t position = cursor_->position();
    char32_t code = 0;
    if (kind != 'U' && cursor_->take_if("{")) {
      QUIRE_ASSIGN_OR_RETURN(code, take_braced_hex(*cursor_));
    } else {
      QUIRE_ASSIGN_OR_RETURN(code, take_hex(*cursor_, kind == 'x' ? 2 : kind == 'u' ? 4 : 8));
    }
    if (kind == 'u' && code >= 0xD800 && code < 0xDC00 && cursor_->take_if("\\u")) {
      QUIRE_ASSIGN_OR_RETURN(const char32_t low, take_hex(*cursor_, 4));
      if (low < 0xDC00 || low > 0xDFFF) {
        return cursor_->wrong_at(position, "half of a surrogate pair");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code > CharSet::kLastCode || (code >= 0xD800 && code <= 0xDFFF)) {
      return cursor_->wrong_at(position, "what is no Unicode character");
    }
    return Escape{{}, code};
  }

  Result<Escape> parse_property(bool negated, std::size_t position) {
    std::string name;
    if (cursor_->take_if("{")) {
      if (cursor_->take_if("^")) negated = !negated;
      while (cursor_->peek() != '}') {
        if (cursor_->at_end()) return cursor_->expected("\"}\" behind the property's name");
        const std::size_t begin = cursor_->position();
        cursor_->take();
        name += cursor_->text().substr(begin, cursor_->position() - begin);
      }
      cursor_->take();
    } else if (cursor_->at_end()) {
      return cursor_->expected("a property's name");
    } else {
      const std::size_t begin = cursor_->position();
      cursor_->take();
      name = cursor_->text().substr(begin, cursor_->position() - begin);
    }
    std::optional<CharSet> set = CharSet::property(name);
    if (!set) {
      return unsupported(position, fmt::format("\\p{{{}}}", name),
                         "general categories are, such as \\p{L} and \\p{Nd}");
    }
    return Escape{negated ? ~*set : *set};
  }

  Result<CharSet> parse_class() {
    const std::size_t position = cursor_->position();
    cursor_->take();
    const bool negated = cursor_->take_if("^");
    std::vector<CharRange> ranges;
    bool first = true;
    while (first && !ecma_ ? true : cursor_->peek() != ']') {
      if (cursor_->at_end()) {
        return cursor_->expected_at(cursor_->position(), "\"]\" for the class that is open");
      }
      first = false;
      if (!ecma_ && cursor_->looking_at("[:")) {
        return unsupported(cursor_->position(), "a POSIX class", "use \\p{..} or ranges");
      }
      const std::size_t begin = cursor_->position();
      QUIRE_ASSIGN_OR_RETURN(const Escape low, parse_class_atom());
      const std::string_view rest = cursor_->rest();
      const bool is_range = rest.size() >= 2 && rest[0] == '-' && rest[1] != ']';
      if (low.set) {
        ranges.insert(ranges.end(), low.set->ranges().begin(), low.set->ranges().end());
        continue;
      }
      if (!is_range) {
        ranges.push_back({low.code, low.code});
        continue;
      }
      cursor_->take();
      QUIRE_ASSIGN_OR_RETURN(const Escape high, parse_class_atom());
      if (high.set) {  // a hyphen that stands for itself
        ranges.push_back({low.code, low.code});
        ranges.push_back({'-', '-'});
        ranges.insert(ranges.end(), high.set->ranges().begin(), high.set->ranges().end());
        continue;
      }
      if (high.code < low.code) {
        return cursor_->wrong_at(begin, "a range whose ends are not in order");
      }
      ranges.push_back({low.code, high.code});
    }
    cursor_->take();
    if (ranges.empty() && !negated && !ecma_) return cursor_->wrong_at(position, "an empty class");
    CharSet set(std::move(ranges));
    if (flags_.ignore_case) set = set.with_both_cases();
    return negated ? ~set : set;
  }

  Result<Escape> parse_class_atom() {
    if (cursor_->peek() != '\\') return Escape{{}, cursor_->take()};
    if (cursor_->take_if("\\b")) return Escape{{}, '\b'};
    return parse_escape();
  }

  SourceCursor* cursor_;
  const GrammarLimits* limits_;
  bool ecma_;
  Flags flags_;
  int nesting_ = 0;
  RegexTree tree_;
};

}  // namespace

Result<RegexTree> parse_regex(SourceCursor& cursor, const RegexOptions& options,
                              const GrammarLimits& limits) {
  return RegexParser(cursor, options, limits).run();
}

}  // namespace quire
