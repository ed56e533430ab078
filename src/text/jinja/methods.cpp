#include "text/jinja/methods.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "text/jinja/formatting.h"
#include "text/jinja/operators.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

std::string label(std::string_view name) { return "method '" + std::string(name) + "'"; }

std::size_t limit_of(Int count) {
  return count < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(count);
}

Result<Value> text_list(std::vector<Text> parts, bool is_markup, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step(parts.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(parts.size() * (kObjectBytes + sizeof(Value))));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(Value::string(std::move(part), is_markup));
  return make_sequence(Kind::kList, std::move(items), budget);
}

// Splits at runs of white space, from the left or from the right.
Result<std::vector<Text>> split_words(const Text& text, std::size_t limit, bool from_right,
                                      Budget& budget) {
  const std::string_view view = text.view();
  // Before it is known how many words there are: one for two characters at most.
  QUIRE_RETURN_IF_ERROR(budget.step(view.size() / 2));
  QUIRE_ASSIGN_OR_RETURN(
      const Budget::Loan loan,
      budget.borrow(std::min(view.size() / 2, limit) * (kObjectBytes / 2) + text.weight()));
  std::vector<Text> out;
  if (from_right) {
    const auto trim_end = [&](std::size_t end) {
      while (end > 0) {
        const std::size_t start = previous_start(view, end);
        std::size_t at = start;
        if (!is_space(next_code_point(view, at))) break;
        end = start;
      }
      return end;
    };
    std::size_t end = trim_end(view.size());
    while (end > 0) {
      if (out.size() == limit) {
        out.push_back(text.substr(0, end));
        break;
      }
      std::size_t begin = end;
      while (begin > 0) {
        const std::size_t start = previous_start(view, begin);
        std::size_t at = start;
        if (is_space(next_code_point(view, at))) break;
        begin = start;
      }
      out.push_back(text.substr(begin, end));
      end = trim_end(begin);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::size_t begin = 0;
  while (begin < view.size()) {
    std::size_t next = begin;
    if (is_space(next_code_point(view, next))) {
      begin = next;
      continue;
    }
    if (out.size() == limit) {
      out.push_back(text.substr(begin, view.size()));
      break;
    }
    std::size_t end = begin;
    while (end < view.size()) {
      std::size_t at = end;
      if (is_space(next_code_point(view, at))) break;
      end = at;
    }
    out.push_back(text.substr(begin, end));
    begin = end;
  }
  return out;
}

Result<Value> split(const Value& receiver, const Args& args, bool from_right, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, label(from_right ? "rsplit" : "split"), {"sep", "maxsplit"}));
  QUIRE_ASSIGN_OR_RETURN(const Int count, bound.integer(1, -1));
  const std::size_t limit = limit_of(count);
  const Text& text = receiver.text();
  QUIRE_RETURN_IF_ERROR(budget.bytes(text.weight()));
  if (!bound.is_set(0)) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<Text> words, split_words(text, limit, from_right, budget));
    return text_list(std::move(words), receiver.is_markup(), budget);
  }
  QUIRE_ASSIGN_OR_RETURN(const Value separator, bound.string(0, ""));
  if (separator.view().empty()) return Status::invalid_argument("split: empty separator");
  std::vector<Text> parts;
  std::size_t at = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::size_t> places,
                         find_all(text.view(), separator.view(), limit, from_right, budget));
  QUIRE_ASSIGN_OR_RETURN(const Budget::Loan loan,
                         budget.borrow(places.size() * (kObjectBytes / 2) + text.weight()));
  for (const std::size_t place : places) {
    parts.push_back(text.substr(at, place));
    at = place + separator.view().size();
  }
  parts.push_back(text.substr(at, text.size()));
  return text_list(std::move(parts), receiver.is_markup(), budget);
}

// Byte range [begin, end) of the optional start and end arguments; false where Python's would be
// empty beyond the string.
Result<bool> sub_range(const Bound& bound, std::string_view view, std::size_t& begin,
                       std::size_t& end) {
  begin = 0;
  end = view.size();
  if (!bound.is_set(1) && !bound.is_set(2)) return true;
  const Int count = static_cast<Int>(code_point_count(view));
  QUIRE_ASSIGN_OR_RETURN(Int first, bound.is_set(1) ? bound.integer(1, 0) : Result<Int>(0));
  QUIRE_ASSIGN_OR_RETURN(Int last, bound.is_set(2) ? bound.integer(2, count) : Result<Int>(count));
  if (first < 0) first = std::max<Int>(first + count, 0);
  if (last < 0) last = std::max<Int>(last + count, 0);
  last = std::min(last, count);
  if (first > last) return false;
  begin = byte_offset(view, static_cast<std::size_t>(first));
  end = byte_offset(view, static_cast<std::size_t>(last - first), begin);
  return true;
}

Result<Value> starts_or_ends(const Value& receiver, const Args& args, bool at_start,
                             Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, label(at_start ? "startswith" : "endswith"), {"prefix", "start", "end"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  std::size_t begin = 0;
  std::size_t end = 0;
  QUIRE_ASSIGN_OR_RETURN(const bool in_range, sub_range(bound, receiver.view(), begin, end));
  const std::string_view view = receiver.view().substr(begin, in_range ? end - begin : 0);
  const bool is_tuple = bound.at(0).is(Kind::kTuple);
  const std::size_t count = is_tuple ? bound.at(0).items().size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    const Value& candidate = is_tuple ? bound.at(0).items()[i] : bound.at(0);
    if (candidate.is_undefined()) return undefined_error(candidate);
    if (!candidate.is_string()) {
      return Status::invalid_argument(label(at_start ? "startswith" : "endswith") +
                                      " needs a str or a tuple of str, not " +
                                      std::string(kind_name(candidate)));
    }
    if (!in_range) continue;
    QUIRE_RETURN_IF_ERROR(budget.scan(std::min(view.size(), candidate.view().size())));
    if (at_start ? view.starts_with(candidate.view()) : view.ends_with(candidate.view())) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

Result<Value> find(const Value& receiver, std::string_view name, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, label(name), {"sub", "start", "end"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Value needle, bound.string(0, ""));
  std::size_t begin = 0;
  std::size_t end = 0;
  QUIRE_ASSIGN_OR_RETURN(const bool in_range, sub_range(bound, receiver.view(), begin, end));
  const std::string_view view = receiver.view().substr(begin, in_range ? end - begin : 0);
  if (name == "count") {
    if (!in_range) return Value::integer(0);
    if (needle.view().empty()) return Value::integer(static_cast<Int>(code_point_count(view)) + 1);
    QUIRE_RETURN_IF_ERROR(budget.step(view.size() / needle.view().size() / 4));
    return Value::integer(static_cast<Int>(count_all(view, needle.view())));
  }
  std::size_t found = std::string_view::npos;
  if (in_range) {
    QUIRE_ASSIGN_OR_RETURN(found, name.starts_with("r")
                                      ? rfind_bytes(view, needle.view(), budget)
                                      : Result<std::size_t>(find_bytes(view, needle.view(), 0)));
  }
  if (found != std::string_view::npos) {
    return Value::integer(
        static_cast<Int>(code_point_count(receiver.view().substr(0, begin + found))));
  }
  if (name.ends_with("index")) return Status::invalid_argument("substring not found");
  return Value::integer(-1);
}

Result<Value> partition(const Value& receiver, const Args& args, bool from_right, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label("partition"), {"sep"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Value separator, bound.string(0, ""));
  if (separator.view().empty()) return Status::invalid_argument("partition: empty separator");
  const Text& text = receiver.text();
  QUIRE_RETURN_IF_ERROR(budget.bytes(3 * kObjectBytes + text.weight()));
  QUIRE_ASSIGN_OR_RETURN(const std::size_t at,
                         from_right
                             ? rfind_bytes(text.view(), separator.view(), budget)
                             : Result<std::size_t>(find_bytes(text.view(), separator.view(), 0)));
  const Value nothing = Value::string(Text());
  std::vector<Value> parts = {receiver, nothing, nothing};
  if (at != std::string_view::npos) {
    parts = {Value::string(text.substr(0, at)), separator,
             Value::string(text.substr(at + separator.view().size(), text.size()))};
  } else if (from_right) {
    std::swap(parts[0], parts[2]);
  }
  return make_sequence(Kind::kTuple, std::move(parts), budget);
}

Result<Value> justify(const Value& receiver, std::string_view name, const Args& args,
                      Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"width", "fillchar"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Int width, bound.integer(0, 0));
  QUIRE_ASSIGN_OR_RETURN(const Value fill, bound.string(1, name == "zfill" ? "0" : " "));
  if (code_point_count(fill.view()) != 1) {
    return Status::invalid_argument(label(name) + ": the fill character must be one character");
  }
  const Text& text = receiver.text();
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + text.weight()));
  if (name == "zfill") {
    const std::size_t sign =
        !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+') ? 1 : 0;
    Text out = text.substr(0, sign);
    QUIRE_ASSIGN_OR_RETURN(
        const Text digits,
        pad(text.substr(sign, text.size()), width - static_cast<Int>(sign), '>', "0", budget));
    out.append(digits);
    return Value::string(std::move(out));
  }
  if (name == "center") {  // Python puts the odd one on the left where the width is odd
    const Int missing = width - static_cast<Int>(code_point_count(text.view()));
    if (missing <= 0) return receiver;
    const Int left = missing / 2 + (missing & width & 1);
    QUIRE_ASSIGN_OR_RETURN(const Text half,
                           pad(text, width - missing + left, '>', fill.view(), budget));
    QUIRE_ASSIGN_OR_RETURN(Text out, pad(half, width, '<', fill.view(), budget));
    return Value::string(std::move(out));
  }
  QUIRE_ASSIGN_OR_RETURN(Text out,
                         pad(text, width, name == "ljust" ? '<' : '>', fill.view(), budget));
  return Value::string(std::move(out));
}

Result<Value> call_string_method(const Value& receiver, std::string_view name, const Args& args,
                                 Budget& budget) {
  const Text& text = receiver.text();
  const bool is_markup = receiver.is_markup();
  QUIRE_RETURN_IF_ERROR(budget.step(4));  // looks the name up among many
  QUIRE_RETURN_IF_ERROR(budget.scan(text.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes));
  if (name == "split" || name == "rsplit") return split(receiver, args, name == "rsplit", budget);
  if (name == "startswith" || name == "endswith") {
    return starts_or_ends(receiver, args, name == "startswith", budget);
  }
  if (name == "format") return format_braces(receiver, args, budget);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    return find(receiver, name, args, budget);
  }
  if (name == "partition" || name == "rpartition") {
    return partition(receiver, args, name == "rpartition", budget);
  }
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill") {
    return justify(receiver, name, args, budget);
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"chars"}));
    QUIRE_ASSIGN_OR_RETURN(const Value chars, bound.is_set(0) ? bound.string(0, "") : Value());
    const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
    QUIRE_ASSIGN_OR_RETURN(Text stripped,
                           strip(text, side, bound.is_set(0) ? &chars : nullptr, budget));
    return Value::string(std::move(stripped), is_markup);
  }
  if (name == "replace") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::bind(args, label(name), {"old", "new", "count"}));
    QUIRE_RETURN_IF_ERROR(bound.require(1));
    QUIRE_ASSIGN_OR_RETURN(const Value from, bound.string(0, ""));
    QUIRE_ASSIGN_OR_RETURN(const Value to, bound.string(1, ""));
    QUIRE_ASSIGN_OR_RETURN(const Int count, bound.integer(2, -1));
    QUIRE_ASSIGN_OR_RETURN(Text out,
                           replace(text, from.view(), to.text(), limit_of(count), budget));
    return Value::string(std::move(out), is_markup);
  }
  if (name == "join") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"iterable"}));
    QUIRE_RETURN_IF_ERROR(bound.require(0));
    QUIRE_ASSIGN_OR_RETURN(const Items items, iterate(bound.at(0), budget));
    QUIRE_ASSIGN_OR_RETURN(Text out, join(text, items.values, budget));
    return Value::string(std::move(out), is_markup);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"affix"}));
    QUIRE_RETURN_IF_ERROR(bound.require(0));
    QUIRE_ASSIGN_OR_RETURN(const Value affix, bound.string(0, ""));
    QUIRE_RETURN_IF_ERROR(budget.bytes(text.weight()));
    const std::size_t size = affix.view().size();
    if (name == "removeprefix" && text.view().starts_with(affix.view())) {
      return Value::string(text.substr(size, text.size()));
    }
    if (name == "removesuffix" && text.view().ends_with(affix.view())) {
      return Value::string(text.substr(0, text.size() - size));
    }
    return receiver;
  }
  if (name == "splitlines") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"keepends"}));
    QUIRE_ASSIGN_OR_RETURN(std::vector<Text> lines,
                           split_lines(text, bound.truth(0, false), budget));
    return text_list(std::move(lines), is_markup, budget);
  }
  constexpr std::array<std::pair<std::string_view, Case>, 5> kCases = {
      {{"upper", Case::kUpper},
       {"lower", Case::kLower},
       {"title", Case::kTitle},
       {"capitalize", Case::kCapitalize},
       {"swapcase", Case::kSwap}}};
  for (const auto& [method, mode] : kCases) {
    if (name != method) continue;
    QUIRE_RETURN_IF_ERROR(Bound::bind(args, label(name), {}).status());
    QUIRE_ASSIGN_OR_RETURN(Text changed, change_case(text, mode, budget));
    return Value::string(std::move(changed), is_markup);
  }
  if (name.starts_with("is")) {
    QUIRE_RETURN_IF_ERROR(Bound::bind(args, label(name), {}).status());
    QUIRE_RETURN_IF_ERROR(budget.step(text.size()));
    return Value::boolean(is_all(text.view(), name));
  }
  return Status::unimplemented("the string method '" + std::string(name) +
                               "' is not supported in chat templates");
}

Result<Value> call_dict_method(const Value& receiver, std::string_view name, const Args& args,
                               Budget& budget) {
  const auto& entries = receiver.dict().entries;
  if (name == "get") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"key", "default"}));
    QUIRE_RETURN_IF_ERROR(bound.require(0));
    QUIRE_ASSIGN_OR_RETURN(const std::string hash, hash_key(bound.at(0), budget));
    const Value* found = receiver.dict().find_key(hash);
    if (found != nullptr) return *found;
    return bound.has(1) ? bound.at(1) : Value::none();
  }
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, label(name), {}).status());
  if (name == "copy") return receiver;
  if (name != "items" && name != "keys" && name != "values") {
    return Status::unimplemented("the dict method '" + std::string(name) +
                                 "' is not supported in chat templates");
  }
  QUIRE_RETURN_IF_ERROR(budget.step(entries.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(entries.size() * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (name == "items") {
      QUIRE_ASSIGN_OR_RETURN(Value pair, make_sequence(Kind::kTuple, {key, value}, budget));
      items.push_back(std::move(pair));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(Value view, make_sequence(Kind::kView, std::move(items), budget));
  view.as<SequenceObject>().type_name = "dict_" + std::string(name);
  return view;
}

Result<Value> call_list_method(const Value& receiver, std::string_view name, const Args& args,
                               Budget& budget) {
  if (name == "copy") return receiver;
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, label(name), {"value"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  Int count = 0;
  const auto& items = receiver.items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const bool equal, is_equal(items[i], bound.at(0), budget));
    if (!equal) continue;
    if (name == "index") return Value::integer(static_cast<Int>(i));
    ++count;
  }
  if (name == "index") return Status::invalid_argument("list.index: the value is not in the list");
  return Value::integer(count);
}

}  // namespace

Result<Value> call_method(const Value& receiver, std::string_view name, const Args& args,
                          Budget& budget) {
  switch (receiver.kind()) {
    case Kind::kString:
      return call_string_method(receiver, name, args, budget);
    case Kind::kDict:
      return call_dict_method(receiver, name, args, budget);
    case Kind::kCycler: {
      QUIRE_RETURN_IF_ERROR(Bound::bind(args, label(name), {}).status());
      auto& cycler = receiver.as<CyclerObject>();
      if (name == "reset") {
        cycler.position = 0;
        return Value::none();
      }
      Value current = cycler.items[cycler.position];
      cycler.position = (cycler.position + 1) % cycler.items.size();
      return current;
    }
    default:
      return call_list_method(receiver, name, args, budget);
  }
}

}  // namespace quire::jinja
