#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/lark_terminals.h"
#include "text/grammar/rule_names.h"

namespace quire {

namespace {

constexpr std::string_view kLark = "the Lark grammar";
// No rule can be called so.
constexpr std::string_view kIgnored = "%ignore";

bool is_lark_name(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Terminals have their first letter in upper case.
bool is_terminal_name(std::string_view name) {
  const std::size_t at = name.find_first_not_of('_');
  return at != std::string_view::npos && name[at] >= 'A' && name[at] <= 'Z';
}

class LarkParser {
 public:
  LarkParser(std::string_view text, GrammarBudget& budget)
      : cursor_(text, kLark), builder_(budget), names_(builder_) {}

  Result<Grammar> run() {
    const RuleId ignored = names_.use(kIgnored, 0);
    while (true) {
      skip_space();
      if (cursor_.at_end()) break;
      QUIRE_RETURN_IF_ERROR(builder_.budget().tick());
      QUIRE_RETURN_IF_ERROR(cursor_.peek() == '%' ? parse_directive() : parse_definition());
    }
    const ExprId any_ignored = builder_.repeat(builder_.choice(ignored_), 0, {});
    QUIRE_RETURN_IF_ERROR(names_.define(kIgnored, any_ignored, 0, cursor_));
    // What is ignored may end a text, too.
    const ExprId whole =
        builder_.seq({builder_.rule(names_.use("start", 0)), builder_.rule(ignored)});
    if (!has_start_) {
      return cursor_.wrong_at(cursor_.text().size(),
                              "there is no rule \"start\", where a text would begin");
    }
    constexpr std::string_view kWhole = "%whole";
    QUIRE_RETURN_IF_ERROR(names_.define(kWhole, whole, 0, cursor_));
    return names_.build(kWhole, cursor_);
  }

 private:
  void skip_comment() {
    while (!cursor_.at_end() && cursor_.peek() != '\n') cursor_.take();
  }
  // Within a line.
  void skip_blanks() {
    while (true) {
      const char32_t c = cursor_.peek();
      if (c == ' ' || c == '\t' || c == '\r') {
        cursor_.take();
      } else if (c == '#' || cursor_.looking_at("//")) {
        skip_comment();
      } else {
        return;
      }
    }
  }
  void skip_space() {
    skip_blanks();
    while (cursor_.peek() == '\n') {
      cursor_.take();
      skip_blanks();
    }
  }

  Status unsupported(std::size_t position, std::string_view what,
                     std::string_view remedy = "say what is wanted without it") const {
    return cursor_.unsupported_at(position, fmt::format("{} is not supported", what), remedy);
  }

  std::string_view take_name() {
    const std::size_t begin = cursor_.position();
    while (is_lark_name(cursor_.peek())) cursor_.take();
    return cursor_.text().substr(begin, cursor_.position() - begin);
  }

  Status parse_directive() {
    const std::size_t position = cursor_.position();
    cursor_.take();
    const std::string_view name = take_name();
    skip_blanks();
    if (name == "ignore") {
      in_terminal_ = true;
      QUIRE_ASSIGN_OR_RETURN(const ExprId what, parse_choice());
      ignored_.push_back(what);
      return expect_line_end();
    }
    if (name == "import") return parse_import();
    for (const std::string_view known :
         {"override", "extend", "declare", "json", "llguidance", "regex", "lark"}) {
      if (name == known) return unsupported(position, fmt::format("%{}", name));
    }
    return cursor_.expected_at(position, "%ignore, %import or a rule");
  }

  Status parse_import() {
    const std::size_t position = cursor_.position();
    const std::string_view library = take_name();
    if (library != "common") {
      return unsupported(position, "an import from anything but common", "write the rules here");
    }
    skip_blanks();
    if (cursor_.take_if(".")) {
      const std::size_t at = cursor_.position();
      const std::string_view name = take_name();
      std::string_view alias = name;
      skip_blanks();
      if (cursor_.take_if("->")) {
        skip_blanks();
        alias = take_name();
        if (alias.empty()) return cursor_.expected("a name");
      }
      QUIRE_RETURN_IF_ERROR(import_terminal(name, alias, at));
      return expect_line_end();
    }
    if (!cursor_.take_if("(")) return cursor_.expected("\".\" or \"(\"");
    do {
      skip_space();
      const std::size_t at = cursor_.position();
      const std::string_view name = take_name();
      QUIRE_RETURN_IF_ERROR(import_terminal(name, name, at));
      skip_space();
    } while (cursor_.take_if(","));
    if (!cursor_.take_if(")")) return cursor_.expected("\")\" or \",\"");
    return expect_line_end();
  }

  Status import_terminal(std::string_view name, std::string_view alias, std::size_t position) {
    const std::optional<std::string_view> regex = common_terminal(name);
    if (!regex) {
      return cursor_.wrong_at(
          position, fmt::format("the library common has no terminal \"{}\"", printable(name)));
    }
    QUIRE_ASSIGN_OR_RETURN(Dfa dfa, regex_to_dfa(*regex, {}, builder_.budget()));
    return names_.define(alias, builder_.regular(std::move(dfa)), position, cursor_);
  }

  Status expect_line_end() {
    skip_blanks();
    if (cursor_.at_end() || cursor_.peek() == '\n') return {};
    return cursor_.expected("the end of the line");
  }

  // Whether a definition's beginning is here; then it is passed, up to behind its colon.
  struct Head {
    std::string_view name;  // empty: none
    std::size_t position = 0;
  };
  Result<Head> take_head() {
    const std::size_t begin = cursor_.position();
    while (cursor_.peek() == '?' || cursor_.peek() == '!') cursor_.take();
    const std::size_t position = cursor_.position();
    const std::string_view name = take_name();
    if (!name.empty()) {
      if (cursor_.peek() == '{')
        return unsupported(position, "a template", "write a rule for each");
      const std::size_t behind = cursor_.position();
      if (cursor_.take_if(".")) {
        cursor_.take_if("-");
        while (cursor_.peek() >= '0' && cursor_.peek() <= '9') cursor_.take();
      }
      skip_blanks();
      if (cursor_.take_if(":")) return Head{name, position};
      cursor_.go_to(behind);
      skip_blanks();
      if (cursor_.peek() == '[') {
        const std::size_t bracket = cursor_.position();
        const std::string_view rest = cursor_.rest();
        const std::size_t close = rest.find(']');
        if (close != rest.npos && close + 1 < rest.size() && rest[close + 1] == ':') {
          return unsupported(bracket, "attributes of a rule");
        }
      }
    }
    cursor_.go_to(begin);
    return Head{};
  }

  Status parse_definition() {
    QUIRE_ASSIGN_OR_RETURN(const Head head, take_head());
    if (head.name.empty()) return cursor_.expected("a rule's name and \":\"");
    in_terminal_ = is_terminal_name(head.name);
    if (head.name == "start") has_start_ = true;
    QUIRE_ASSIGN_OR_RETURN(const ExprId body, parse_choice());
    QUIRE_RETURN_IF_ERROR(names_.define(head.name, body, head.position, cursor_));
    return expect_line_end();
  }

  Result<ExprId> parse_choice() {
    if (++nesting_ > builder_.budget().limits().max_source_nesting) {
      return Status::resource_exhausted(
          fmt::format("groups of {} are nested more than {} deep (limit max_source_nesting)", kLark,
                      builder_.budget().limits().max_source_nesting),
          "use rules for the inner ones");
    }
    std::vector<ExprId> parts;
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, parse_sequence());
      parts.push_back(part);
      // The next alternative may be on a line of its own.
      const std::size_t end = cursor_.position();
      skip_space();
      if (cursor_.take_if("|")) continue;
      if (groups_ == 0) cursor_.go_to(end);
      break;
    }
    --nesting_;
    return builder_.choice(parts);
  }

  Result<ExprId> parse_sequence() {
    std::vector<ExprId> parts;
    while (true) {
      if (groups_ > 0) {
        skip_space();
      } else {
        skip_blanks();
      }
      const char32_t c = cursor_.peek();
      if (cursor_.at_end() || c == '\n' || c == '|' || c == ')' || c == ']') break;
      if (cursor_.take_if("->")) {
        skip_blanks();
        if (take_name().empty()) return cursor_.expected("a name behind \"->\"");
        continue;
      }
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, parse_repeated());
      parts.push_back(part);
    }
    return builder_.seq(parts);
  }

  Result<ExprId> parse_repeated() {
    QUIRE_ASSIGN_OR_RETURN(const ExprId part, parse_atom());
    const std::size_t position = cursor_.position();
    if (cursor_.take_if("*")) return builder_.repeat(part, 0, {});
    if (cursor_.take_if("+")) return builder_.repeat(part, 1, {});
    if (cursor_.take_if("?")) return builder_.optional(part);
    skip_blanks();
    if (!cursor_.take_if("~")) return part;
    skip_blanks();
    QUIRE_ASSIGN_OR_RETURN(const std::uint32_t min, take_number(cursor_));
    std::uint32_t max = min;
    if (cursor_.take_if("..")) {
      QUIRE_ASSIGN_OR_RETURN(max, take_number(cursor_));
    }
    if (max < min) {
      return cursor_.wrong_at(position, "a repetition whose numbers are not in order");
    }
    return builder_.repeat(part, min, max);
  }

  // In a rule, what is ignored may stand before a terminal.
  ExprId terminal(ExprId expr) {
    if (in_terminal_) return expr;
    return builder_.seq({builder_.rule(names_.use(kIgnored, 0)), expr});
  }

  Result<ExprId> parse_atom() {
    const std::size_t position = cursor_.position();
    const char32_t c = cursor_.peek();
    if (c == '"') return parse_text();
    if (c == '/') return parse_regex_terminal();
    if (c == '<') {
      QUIRE_ASSIGN_OR_RETURN(const ExprId token, take_token(cursor_, builder_));
      return terminal(token);
    }
    if (c == '(' || c == '[') {
      cursor_.take();
      ++groups_;
      QUIRE_ASSIGN_OR_RETURN(const ExprId inside, parse_choice());
      --groups_;
      if (!cursor_.take_if(c == '(' ? ")" : "]")) {
        return cursor_.expected(c == '(' ? "\")\" for the group that is open"
                                         : "\"]\" for the group that is open");
      }
      return c == '(' ? inside : builder_.optional(inside);
    }
    const std::string_view name = take_name();
    if (name.empty()) return cursor_.expected("a text, a regular expression, a name or a group");
    if (cursor_.peek() == '{') return unsupported(position, "a template", "write a rule for each");
    if (in_terminal_ && !is_terminal_name(name)) {
      return cursor_.wrong_at(position, "a terminal that refers to a rule");
    }
    const ExprId rule = builder_.rule(names_.use(name, position));
    return is_terminal_name(name) ? terminal(rule) : rule;
  }

  // "text", "text"i or "a".."z".
  Result<ExprId> parse_text() {
    const std::size_t position = cursor_.position();
    QUIRE_ASSIGN_OR_RETURN(const std::string text, take_string(cursor_));
    if (cursor_.take_if("..")) {
      if (cursor_.peek() != '"') return cursor_.expected("a character in quotes");
      QUIRE_ASSIGN_OR_RETURN(const std::string last, take_string(cursor_));
      const Utf8Char a = text.empty() ? Utf8Char() : decode_utf8(text, 0);
      const Utf8Char b = last.empty() ? Utf8Char() : decode_utf8(last, 0);
      if (!a.valid || !b.valid || a.size != text.size() || b.size != last.size() ||
          b.code < a.code) {
        return cursor_.wrong_at(position,
                                "a range that is not one from a character to a later one");
      }
      return terminal(builder_.char_class({{a.code, b.code}}));
    }
    const char32_t behind = cursor_.peek();
    if (behind != 'i') return terminal(builder_.literal(text));
    cursor_.take();
    std::vector<ExprId> parts;
    for (std::size_t i = 0; i < text.size();) {
      const Utf8Char at = decode_utf8(text, i);
      parts.push_back(builder_.char_class(CharSet{{at.code, at.code}}.with_both_cases()));
      i += at.size;
    }
    return terminal(builder_.seq(parts));
  }

  Result<ExprId> parse_regex_terminal() {
    const std::size_t position = cursor_.position();
    cursor_.take();
    std::string pattern;
    while (cursor_.peek() != '/') {
      if (cursor_.at_end() || cursor_.peek() == '\n') {
        return cursor_.wrong_at(position, "a regular expression whose closing \"/\" is missing");
      }
      const char32_t c = cursor_.take();
      if (c == '\\') {
        const char32_t escaped = cursor_.take();
        if (escaped == SourceCursor::kEnd) continue;
        if (escaped != '/') pattern += '\\';
        append_utf8(escaped, pattern);
        continue;
      }
      append_utf8(c, pattern);
    }
    cursor_.take();
    RegexOptions options;
    while (is_lark_name(cursor_.peek())) {
      const std::size_t flag_position = cursor_.position();
      const char32_t flag = cursor_.take();
      if (flag == 'i') {
        options.ignore_case = true;
      } else if (flag == 's') {
        options.dot_all = true;
      } else if (flag != 'u') {
        return unsupported(flag_position, "a flag other than i, s and u");
      }
    }
    Result<Dfa> dfa = regex_to_dfa(pattern, options, builder_.budget());
    if (!dfa.ok()) {
      const Status at = cursor_.wrong_at(position, dfa.status().message());
      return Status(dfa.status().code(), at.message(), dfa.status().remedy());
    }
    return terminal(builder_.regular(*std::move(dfa)));
  }

  SourceCursor cursor_;
  GrammarBuilder builder_;
  RuleNames names_;
  std::vector<ExprId> ignored_;
  int nesting_ = 0;
  int groups_ = 0;
  bool in_terminal_ = false;
  bool has_start_ = false;
};

}  // namespace

Result<Grammar> lark_grammar(std::string_view text, GrammarBudget& budget) {
  QUIRE_RETURN_IF_ERROR(check_source(text, kLark, budget.limits().max_source_bytes));
  return LarkParser(text, budget).run();
}

}  // namespace quire
