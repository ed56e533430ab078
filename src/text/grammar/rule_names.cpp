#include "text/grammar/rule_names.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

namespace {

// For messages.
constexpr std::size_t kMostNameBytes = 60;

std::string quoted_name(std::string_view name) {
  return fmt::format("\"{}\"", printable(name.substr(0, kMostNameBytes)));
}

}  // namespace

RuleId RuleNames::use(std::string_view name, std::size_t position) {
  const auto known = entries_.find(name);
  if (known != entries_.end()) return known->second.rule;
  const RuleId rule = builder_->add_rule(name);
  entries_.emplace(name, Entry{rule, position, false});
  return rule;
}

Status RuleNames::define(std::string_view name, ExprId body, std::size_t position,
                         const SourceCursor& cursor) {
  const RuleId rule = use(name, position);
  Entry& entry = entries_.find(name)->second;
  if (entry.defined) {
    return cursor.wrong_at(position,
                           fmt::format("the rule {} is defined a second time", quoted_name(name)));
  }
  entry.defined = true;
  builder_->define(rule, body);
  return {};
}

Result<Grammar> RuleNames::build(std::string_view root, const SourceCursor& cursor) {
  // The first by position, so that it is always the same one.
  const std::pair<const std::string, Entry>* missing = nullptr;
  for (const auto& entry : entries_) {
    if (entry.second.defined) continue;
    if (missing == nullptr || entry.second.position < missing->second.position) missing = &entry;
  }
  if (missing != nullptr) {
    return cursor.wrong_at(missing->second.position,
                           fmt::format("there is no rule {}", quoted_name(missing->first)));
  }
  const auto entry = entries_.find(root);
  if (entry == entries_.end()) {
    return cursor.wrong_at(
        cursor.text().size(),
        fmt::format("there is no rule {}, where a text would begin", quoted_name(root)));
  }
  return builder_->build(entry->second.rule);
}

void append_utf8(char32_t code, std::string& out) {
  const auto add = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

Result<char32_t> take_escape(SourceCursor& cursor) {
  const std::size_t position = cursor.position();
  cursor.take();
  const char32_t c = cursor.take();
  char32_t code = c;
  switch (c) {
    case SourceCursor::kEnd:
      return cursor.expected("a character behind the backslash");
    case 'n':
      return U'\n';
    case 'r':
      return U'\r';
    case 't':
      return U'\t';
    case 'v':
      return U'\v';
    case 'f':
      return U'\f';
    case 'b':
      return U'\b';
    case 'a':
      return U'\a';
    case '0':
      return U'\0';
    case 'x':
    case 'u':
    case 'U': {
      QUIRE_ASSIGN_OR_RETURN(code, take_hex(cursor, c == 'x' ? 2 : c == 'u' ? 4 : 8));
      if (code > CharSet::kLastCode || (code >= 0xD800 && code <= 0xDFFF)) {
        return cursor.wrong_at(position, "what is no Unicode character");
      }
      return code;
    }
    default:
      break;
  }
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    return cursor.wrong_at(position, "an escape that has no meaning");
  }
  return code;
}

Result<std::string> take_string(SourceCursor& cursor) {
  const std::size_t position = cursor.position();
  const char32_t quote = cursor.take();
  std::string text;
  while (cursor.peek() != quote) {
    if (cursor.at_end() || cursor.peek() == '\n') {
      return cursor.wrong_at(position, "a text whose closing quote is missing");
    }
    char32_t code = cursor.peek();
    if (code == '\\') {
      QUIRE_ASSIGN_OR_RETURN(code, take_escape(cursor));
    } else {
      cursor.take();
    }
    append_utf8(code, text);
  }
  cursor.take();
  return text;
}

namespace {

Result<char32_t> take_class_char(SourceCursor& cursor) {
  if (cursor.peek() == '\\') return take_escape(cursor);
  if (!cursor.looking_at("#x") || hex_value(static_cast<unsigned char>(
                                      cursor.rest().size() > 2 ? cursor.rest()[2] : ' ')) > 15) {
    return cursor.take();
  }
  const std::size_t position = cursor.position();
  cursor.take();
  cursor.take();
  char32_t code = 0;
  while (hex_value(cursor.peek()) <= 15 && code <= CharSet::kLastCode) {
    code = code * 16 + hex_value(cursor.take());
  }
  if (code > CharSet::kLastCode) return cursor.wrong_at(position, "what is no Unicode character");
  return code;
}

}  // namespace

Result<CharSet> take_class(SourceCursor& cursor) {
  const std::size_t position = cursor.position();
  cursor.take();
  const bool negated = cursor.take_if("^");
  std::vector<CharRange> ranges;
  while (cursor.peek() != ']') {
    if (cursor.at_end()) return cursor.wrong_at(position, "a class whose closing \"]\" is missing");
    const std::size_t begin = cursor.position();
    QUIRE_ASSIGN_OR_RETURN(const char32_t first, take_class_char(cursor));
    const std::string_view rest = cursor.rest();
    char32_t last = first;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      cursor.take();
      QUIRE_ASSIGN_OR_RETURN(last, take_class_char(cursor));
      if (last < first) return cursor.wrong_at(begin, "a range whose ends are not in order");
    }
    ranges.push_back({first, last});
  }
  cursor.take();
  if (ranges.empty() && !negated) return cursor.wrong_at(position, "an empty class");
  CharSet set(std::move(ranges));
  return negated ? ~set : set;
}

Result<ExprId> take_token(SourceCursor& cursor, GrammarBuilder& builder) {
  const std::size_t position = cursor.position();
  const std::string_view rest = cursor.rest();
  const std::size_t end = rest.find('>');
  if (end == std::string_view::npos || rest.substr(0, end).find_first_of(" \t\n") != rest.npos) {
    return cursor.wrong_at(position, "a token whose closing \">\" is missing");
  }
  if (!rest.starts_with("<[")) {
    cursor.go_to(position + end + 1);
    return builder.token(rest.substr(0, end + 1));
  }
  cursor.go_to(position + 2);
  QUIRE_ASSIGN_OR_RETURN(const std::uint32_t id, take_number(cursor));
  if (!cursor.take_if("]>")) return cursor.expected("\"]>\"");
  return builder.token(static_cast<TokenId>(id));
}

}  // namespace quire
