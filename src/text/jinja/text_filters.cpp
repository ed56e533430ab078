// Filters that make or read text.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/filters.h"
#include "text/jinja/formatting.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

// The value as a string value: itself, or its str().
Result<Value> soft_string(const Value& value, Budget& budget) {
  if (value.is_string()) return value;
  QUIRE_ASSIGN_OR_RETURN(Text text, to_text(value, budget));
  return Value::string(std::move(text));
}

template <Case kMode>
Result<Value> filter_case(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "a filter that changes case", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  QUIRE_ASSIGN_OR_RETURN(Text changed, change_case(string.text(), kMode, budget));
  return Value::string(std::move(changed), string.is_markup());
}

// Jinja's title: capitals after white space, hyphens and opening brackets only.
Result<Value> filter_title(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'title'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  const Text& text = string.text();
  const std::string_view view = text.view();
  const auto begins_word = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  // A word costs more than its characters: two texts are made of it.
  QUIRE_RETURN_IF_ERROR(budget.step(2 * view.size()));
  Text out;
  for (std::size_t i = 0; i < view.size();) {
    std::size_t end = i;
    if (begins_word(next_code_point(view, end))) {
      out.append_part(text, i, end);
      i = end;
      continue;
    }
    const std::size_t rest = end;
    while (end < view.size()) {
      std::size_t next = end;
      if (begins_word(next_code_point(view, next))) break;
      end = next;
    }
    QUIRE_ASSIGN_OR_RETURN(const Text first,
                           change_case(text.substr(i, rest), Case::kUpper, budget));
    QUIRE_ASSIGN_OR_RETURN(const Text others,
                           change_case(text.substr(rest, end), Case::kLower, budget));
    out.append(first);
    out.append(others);
    i = end;
  }
  return Value::string(std::move(out), string.is_markup());
}

Result<Value> filter_string(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'string'", {}).status());
  return soft_string(value, budget);
}

Result<Value> filter_trim(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'trim'", {"chars"}));
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  QUIRE_ASSIGN_OR_RETURN(const Value chars, bound.is_set(0) ? bound.string(0, "") : Value());
  QUIRE_ASSIGN_OR_RETURN(
      Text stripped, strip(string.text(), Side::kBoth, bound.is_set(0) ? &chars : nullptr, budget));
  return Value::string(std::move(stripped), string.is_markup());
}

Result<Value> filter_replace(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'replace'", {"old", "new", "count"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_RETURN_IF_ERROR(bound.require(1));
  QUIRE_ASSIGN_OR_RETURN(const Value text, soft_string(value, budget));
  QUIRE_ASSIGN_OR_RETURN(const Value from, soft_string(bound.at(0), budget));
  QUIRE_ASSIGN_OR_RETURN(const Value to, soft_string(bound.at(1), budget));
  QUIRE_ASSIGN_OR_RETURN(const Int count, bound.is_set(2) ? bound.integer(2, -1) : Result<Int>(-1));
  QUIRE_ASSIGN_OR_RETURN(
      Text out,
      replace(text.text(), from.view(), to.text(),
              count < 0 ? static_cast<std::size_t>(-1) : static_cast<std::size_t>(count), budget));
  return Value::string(std::move(out));
}

Result<Value> filter_indent(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'indent'", {"width", "first", "blank"}));
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_string()) return Status::invalid_argument("filter 'indent' needs a string");
  Text indention;
  if (bound.has(0) && bound.at(0).is_string()) {
    indention = bound.at(0).text();
  } else {
    QUIRE_ASSIGN_OR_RETURN(const Int width, bound.integer(0, 4));
    QUIRE_ASSIGN_OR_RETURN(indention, pad(Text(), width, '<', " ", budget));
  }
  const bool blank = bound.truth(2, false);
  QUIRE_RETURN_IF_ERROR(budget.bytes(value.text().weight()));
  Text padded = value.text();
  padded.append("\n", true);  // as Jinja does, so that a last line break counts
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Text> lines, split_lines(padded, false, budget));
  const std::size_t added = lines.size() * (indention.weight() + 1);
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + padded.weight() + added));
  QUIRE_RETURN_IF_ERROR(budget.scan(added));
  Text out;
  if (bound.truth(1, false)) out.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n", true);
      if (blank || !lines[i].empty()) out.append(indention);
    }
    out.append(lines[i]);
  }
  return Value::string(std::move(out), value.is_markup());
}

Result<Value> filter_center(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'center'", {"width"}));
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  Args width;
  width.positional.push_back(bound.has(0) ? bound.at(0) : Value::integer(80));
  return call_method(string, "center", width, budget);
}

Result<Value> filter_truncate(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'truncate'",
                                                        {"length", "killwords", "end", "leeway"}));
  QUIRE_ASSIGN_OR_RETURN(const Int length, bound.integer(0, 255));
  QUIRE_ASSIGN_OR_RETURN(const Value end, bound.string(2, "..."));
  QUIRE_ASSIGN_OR_RETURN(const Int leeway, bound.is_set(3) ? bound.integer(3, 5) : Result<Int>(5));
  if (value.is_undefined()) return value;
  if (!value.is_string()) return Status::invalid_argument("filter 'truncate' needs a string");
  const Int kept = length - static_cast<Int>(code_point_count(end.view()));
  if (kept < 0 || leeway < 0) {
    return Status::invalid_argument("filter 'truncate': length or leeway too small");
  }
  const Text& text = value.text();
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + text.weight() + end.text().weight()));
  QUIRE_RETURN_IF_ERROR(budget.scan(2 * end.view().size()));
  if (static_cast<Int>(code_point_count(text.view())) - length <= leeway) return value;
  Text out = text.substr(0, byte_offset(text.view(), static_cast<std::size_t>(kept)));
  if (!bound.truth(1, false)) {
    const std::size_t space = out.view().rfind(' ');
    if (space != std::string_view::npos) out = out.substr(0, space);
  }
  out.append(end.text());
  return Value::string(std::move(out));
}

Result<Value> filter_wordcount(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'wordcount'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  QUIRE_RETURN_IF_ERROR(budget.characters(2 * string.view().size()));
  Int words = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < string.view().size();) {
    const bool is_part = is_word(next_code_point(string.view(), i));
    if (is_part && !in_word) ++words;
    in_word = is_part;
  }
  return Value::integer(words);
}

Result<Value> filter_format(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Value pattern, soft_string(value, budget));
  if (!args.positional.empty() && !args.keywords.empty()) {
    return Status::invalid_argument("filter 'format' takes positional or keyword arguments");
  }
  if (args.keywords.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const Value values,
                           make_sequence(Kind::kTuple, args.positional, budget));
    return format_printf(pattern, values, budget);
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, argument] : args.keywords) {
    entries.emplace_back(Value::string(key, true), argument);
  }
  QUIRE_ASSIGN_OR_RETURN(const Value values, make_dict(std::move(entries), budget));
  return format_printf(pattern, values, budget);
}

Result<Value> filter_tojson(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, "filter 'tojson'", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonFormat format;
  format.ensure_ascii = bound.truth(0, false);
  format.sort_keys = bound.truth(3, false);
  if (bound.is_set(1)) {
    format.has_indent = true;
    if (bound.at(1).is_string()) {
      format.indent = bound.at(1).text();
    } else {
      QUIRE_ASSIGN_OR_RETURN(const Int width, bound.integer(1, 0));
      QUIRE_ASSIGN_OR_RETURN(format.indent, pad(Text(), width, '<', " ", budget));
    }
  }
  format.item_separator = Text(format.has_indent ? "," : ", ", false);
  format.key_separator = Text(": ", false);
  if (bound.is_set(2)) {
    const Value& pair = bound.at(2);
    if (!pair.is_sequence() || pair.items().size() != 2 || !pair.items()[0].is_string() ||
        !pair.items()[1].is_string()) {
      return Status::invalid_argument("filter 'tojson': separators must be a pair of strings");
    }
    format.item_separator = pair.items()[0].text();
    format.key_separator = pair.items()[1].text();
  }
  QUIRE_ASSIGN_OR_RETURN(Text out, to_json(value, format, budget));
  return Value::string(std::move(out));
}

Result<Value> filter_safe(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'safe'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + string.text().weight()));
  return Value::string(string.text(), true);
}

Result<Value> filter_escape(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'escape'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  return escape_html(string, budget);
}

Result<Value> filter_urlencode(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'urlencode'", {}).status());
  if (value.is_dict() || value.is_sequence()) {
    return Status::unimplemented("filter 'urlencode' of a list or dict is not supported");
  }
  QUIRE_ASSIGN_OR_RETURN(const Value string, soft_string(value, budget));
  const Text& text = string.text();
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
  constexpr std::string_view kUpperHex = "0123456789ABCDEF";
  QUIRE_RETURN_IF_ERROR(budget.characters(2 * text.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + text.weight() + 2 * text.size()));
  Text out;
  text.for_each_run([&](std::string_view run, bool is_template) {
    for (const char c : run) {
      const auto byte = static_cast<unsigned char>(c);
      if (kPlain.find(c) != std::string_view::npos) {
        out.append(std::string_view(&c, 1), is_template);
      } else {
        const char escape[] = {'%', kUpperHex[byte >> 4], kUpperHex[byte & 15U]};
        out.append(std::string_view(escape, 3), is_template);
      }
    }
  });
  return Value::string(std::move(out));
}

constexpr std::array<FilterEntry, 17> kTextFilters = {{
    {"capitalize", filter_case<Case::kCapitalize>},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"lower", filter_case<Case::kLower>},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_case<Case::kUpper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
}};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  for (const FilterEntry& entry : kTextFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace quire::jinja
