#include <fmt/format.h>

#include "text/grammar/grammar_text.h"
#include "text/grammar/rule_names.h"

namespace quire {

namespace {

constexpr std::string_view kEbnf = "the EBNF grammar";

bool is_ebnf_name(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

class EbnfParser {
 public:
  EbnfParser(std::string_view text, GrammarBudget& budget)
      : cursor_(text, kEbnf), builder_(budget), names_(builder_) {}

  Result<Grammar> run() {
    while (true) {
      QUIRE_RETURN_IF_ERROR(skip_space());
      if (cursor_.at_end()) break;
      QUIRE_RETURN_IF_ERROR(parse_rule());
    }
    return names_.build("root", cursor_);
  }

 private:
  Status skip_space() {
    while (true) {
      const char32_t c = cursor_.peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        cursor_.take();
      } else if (c == '#') {
        while (!cursor_.at_end() && cursor_.peek() != '\n') cursor_.take();
      } else if (cursor_.looking_at("/*")) {
        const std::size_t end = cursor_.text().find("*/", cursor_.position() + 2);
        if (end == std::string_view::npos) {
          return cursor_.wrong_at(cursor_.position(), "a comment whose end \"*/\" is missing");
        }
        cursor_.go_to(end + 2);
      } else {
        return builder_.budget().tick();
      }
    }
  }

  std::string_view take_name() {
    const std::size_t begin = cursor_.position();
    while (is_ebnf_name(cursor_.peek())) cursor_.take();
    // W3C's A -B is a difference, not a name that ends in a hyphen.
    return cursor_.text().substr(begin, cursor_.position() - begin);
  }

  // Whether a rule's name and ::= are here.
  Result<bool> at_rule() {
    const std::size_t begin = cursor_.position();
    const bool named = !take_name().empty();
    QUIRE_RETURN_IF_ERROR(skip_space());
    const bool is_rule = named && cursor_.looking_at("::=");
    cursor_.go_to(begin);
    return is_rule;
  }

  Status parse_rule() {
    const std::size_t position = cursor_.position();
    const std::string_view name = take_name();
    if (name.empty()) return cursor_.expected("a rule's name");
    QUIRE_RETURN_IF_ERROR(skip_space());
    if (!cursor_.take_if("::=")) return cursor_.expected("\"::=\"");
    QUIRE_ASSIGN_OR_RETURN(const ExprId body, parse_choice());
    QUIRE_RETURN_IF_ERROR(names_.define(name, body, position, cursor_));
    QUIRE_RETURN_IF_ERROR(skip_space());
    if (cursor_.at_end()) return {};
    QUIRE_ASSIGN_OR_RETURN(const bool is_rule, at_rule());
    return is_rule ? Status() : cursor_.expected("a text, a class, a rule's name, \"(\" or \"|\"");
  }

  Result<ExprId> parse_choice() {
    if (++nesting_ > builder_.budget().limits().max_source_nesting) {
      return Status::resource_exhausted(
          fmt::format("groups of {} are nested more than {} deep (limit max_source_nesting)", kEbnf,
                      builder_.budget().limits().max_source_nesting),
          "use rules for the inner ones");
    }
    std::vector<ExprId> parts;
    do {
      QUIRE_ASSIGN_OR_RETURN(const ExprId part, parse_sequence());
      parts.push_back(part);
    } while (cursor_.take_if("|"));
    --nesting_;
    return builder_.choice(parts);
  }

  Result<ExprId> parse_sequence() {
    std::vector<ExprId> parts;
    while (true) {
      QUIRE_RETURN_IF_ERROR(skip_space());
      const char32_t c = cursor_.peek();
      const bool begins = is_ebnf_name(c) || c == '"' || c == '\'' || c == '[' || c == '(' ||
                          c == '.' || c == '<' || c == '!' || c == '{' || c == '*' || c == '+' ||
                          c == '?';
      if (!begins) break;
      QUIRE_ASSIGN_OR_RETURN(const bool next_rule, at_rule());
      if (next_rule) break;
      QUIRE_ASSIGN_OR_RETURN(ExprId part, parse_repeated());
      QUIRE_RETURN_IF_ERROR(skip_space());
      while (cursor_.take_if("-")) {
        QUIRE_RETURN_IF_ERROR(skip_space());
        QUIRE_ASSIGN_OR_RETURN(const ExprId without, parse_repeated());
        QUIRE_ASSIGN_OR_RETURN(part, difference(part, without));
        QUIRE_RETURN_IF_ERROR(skip_space());
      }
      parts.push_back(part);
    }
    return builder_.seq(parts);
  }

  Result<ExprId> difference(ExprId from, ExprId without) {
    QUIRE_ASSIGN_OR_RETURN(const Dfa a, builder_.language_of(from));
    QUIRE_ASSIGN_OR_RETURN(const Dfa b, builder_.language_of(without));
    QUIRE_ASSIGN_OR_RETURN(Dfa result, dfa_difference(a, b, builder_.budget()));
    return builder_.regular(std::move(result));
  }

  Result<ExprId> parse_repeated() {
    QUIRE_ASSIGN_OR_RETURN(ExprId part, parse_primary());
    while (true) {
      const std::size_t position = cursor_.position();
      if (cursor_.take_if("*")) {
        part = builder_.repeat(part, 0, {});
      } else if (cursor_.take_if("+")) {
        part = builder_.repeat(part, 1, {});
      } else if (cursor_.take_if("?")) {
        part = builder_.optional(part);
      } else if (cursor_.take_if("{")) {
        QUIRE_RETURN_IF_ERROR(skip_space());
        QUIRE_ASSIGN_OR_RETURN(const std::uint32_t min, take_number(cursor_));
        std::optional<std::uint32_t> max = min;
        QUIRE_RETURN_IF_ERROR(skip_space());
        if (cursor_.take_if(",")) {
          QUIRE_RETURN_IF_ERROR(skip_space());
          max.reset();
          if (cursor_.peek() != '}') {
            QUIRE_ASSIGN_OR_RETURN(max, take_number(cursor_));
          }
          QUIRE_RETURN_IF_ERROR(skip_space());
        }
        if (!cursor_.take_if("}")) return cursor_.expected("\"}\" or a number");
        if (max && *max < min) {
          return cursor_.wrong_at(position, "a repetition whose numbers are not in order");
        }
        part = builder_.repeat(part, min, max);
      } else {
        return part;
      }
    }
  }

  Result<ExprId> parse_primary() {
    const std::size_t position = cursor_.position();
    const char32_t c = cursor_.peek();
    if (c == '"' || c == '\'') {
      QUIRE_ASSIGN_OR_RETURN(const std::string text, take_string(cursor_));
      return builder_.literal(text);
    }
    if (c == '[') {
      QUIRE_ASSIGN_OR_RETURN(const CharSet set, take_class(cursor_));
      return builder_.char_class(set);
    }
    if (c == '<') return take_token(cursor_, builder_);
    if (cursor_.looking_at("!<")) {
      return cursor_.unsupported_at(position, "all tokens but one, !<..>, are not supported",
                                    "name the tokens that may come");
    }
    if (cursor_.take_if("(")) {
      if (cursor_.looking_at("=") || cursor_.looking_at("?=")) {
        return cursor_.unsupported_at(position, "look-ahead is not supported",
                                      "say what is wanted without it");
      }
      QUIRE_ASSIGN_OR_RETURN(const ExprId inside, parse_choice());
      if (!cursor_.take_if(")")) return cursor_.expected("\")\" for the group that is open");
      return inside;
    }
    if (c == '.') {
      cursor_.take();
      return builder_.char_class(CharSet::all());
    }
    const std::string_view name = take_name();
    if (name.empty()) return cursor_.expected("a text, a class, a rule's name or \"(\"");
    if (cursor_.looking_at("(")) {
      if (name == "TagDispatch" || name == "EBNFMacro" || name == "TokenTagDispatch") {
        return cursor_.unsupported_at(position, fmt::format("the macro {} is not supported", name),
                                      "use structural_tag");
      }
    }
    return builder_.rule(names_.use(name, position));
  }

  SourceCursor cursor_;
  GrammarBuilder builder_;
  RuleNames names_;
  int nesting_ = 0;
};

}  // namespace

Result<Grammar> ebnf_grammar(std::string_view text, GrammarBudget& budget) {
  QUIRE_RETURN_IF_ERROR(check_source(text, kEbnf, budget.limits().max_source_bytes));
  return EbnfParser(text, budget).run();
}

Result<Grammar> regex_grammar(std::string_view pattern, const RegexOptions& options,
                              GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, regex_to_dfa(pattern, options, budget));
  GrammarBuilder builder(budget);
  const RuleId root = builder.add_rule("root");
  builder.define(root, builder.regular(std::move(dfa)));
  return builder.build(root);
}

Result<Grammar> choice_grammar(std::span<const std::string> choices, GrammarBudget& budget) {
  if (choices.empty()) return Status::invalid_argument("there is nothing to choose from");
  GrammarBuilder builder(budget);
  std::vector<ExprId> parts;
  std::size_t bytes = 0;
  for (const std::string& choice : choices) {
    bytes += choice.size();
    QUIRE_RETURN_IF_ERROR(budget.check_size(bytes, 0));
    parts.push_back(builder.literal(choice));
  }
  const RuleId root = builder.add_rule("root");
  builder.define(root, builder.choice(parts));
  return builder.build(root);
}

bool is_ebnf(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, std::min(line.find('#'), line.find("//")));
    if (line.find("::=") != std::string_view::npos) return true;
  }
  return false;
}

Result<Grammar> grammar_from_text(std::string_view text, GrammarBudget& budget) {
  return is_ebnf(text) ? ebnf_grammar(text, budget) : lark_grammar(text, budget);
}

}  // namespace quire
