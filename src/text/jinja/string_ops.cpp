#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/methods.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

// Python's rule for a capital sigma: the final form at the end of a word.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t i = begin;
  bool after_cased = false;
  while (i > 0) {
    i = previous_start(text, i);
    std::size_t at = i;
    const char32_t c = next_code_point(text, at);
    if (is_case_ignorable(c)) continue;
    after_cased = is_cased(c);
    break;
  }
  if (!after_cased) return false;
  for (std::size_t at = end; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return true;
}

}  // namespace

Result<Text> change_case(const Text& text, Case mode, Budget& budget) {
  // A character may become three times as long, in UTF-8.
  QUIRE_RETURN_IF_ERROR(budget.characters(2 * text.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + text.weight() + text.size() / 2));
  Text out;
  out.reserve(text.size());
  const std::string_view view = text.view();
  bool after_cased = false;
  std::string mapped;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(view, i);
    const bool is_first = mode == Case::kTitle ? !after_cased : begin == 0;
    const bool to_upper = mode == Case::kUpper || (mode == Case::kSwap && is_lower(c));
    const bool to_title = (mode == Case::kTitle || mode == Case::kCapitalize) && is_first;
    const bool keep = mode == Case::kSwap && !is_cased(c);
    mapped.clear();
    if (keep) {
      mapped = view.substr(begin, i - begin);
    } else if (to_upper) {
      append_upper(mapped, c);
    } else if (to_title) {
      append_title(mapped, c);
    } else if (c == 0x3A3 && is_final_sigma(view, begin, i)) {
      append_utf8(mapped, 0x3C2);
    } else {
      append_lower(mapped, c);
    }
    out.append(mapped, text.is_template_at(begin));
    after_cased = is_cased(c);
  }
  return out;
}

Result<Text> strip(const Text& text, Side side, const Value* chars, Budget& budget) {
  const std::string_view view = text.view();
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + text.weight()));
  QUIRE_RETURN_IF_ERROR(chars == nullptr ? budget.step(view.size() / 16)
                                         : budget.characters(view.size()));
  std::vector<char32_t> set;
  if (chars != nullptr) {
    QUIRE_RETURN_IF_ERROR(budget.step(chars->view().size()));
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * sizeof(char32_t) * chars->view().size()));
    for (std::size_t i = 0; i < chars->view().size();) {
      set.push_back(next_code_point(chars->view(), i));
    }
    std::sort(set.begin(), set.end());
  }
  const auto drops = [&](char32_t c) {
    return chars == nullptr ? is_space(c) : std::binary_search(set.begin(), set.end(), c);
  };
  std::size_t begin = 0;
  std::size_t end = view.size();
  while (side != Side::kRight && begin < end) {
    std::size_t next = begin;
    if (!drops(next_code_point(view, next))) break;
    begin = next;
  }
  while (side != Side::kLeft && end > begin) {
    const std::size_t start = previous_start(view, end);
    std::size_t at = start;
    if (!drops(next_code_point(view, at))) break;
    end = start;
  }
  return text.substr(begin, end);
}

Result<Text> replace(const Text& text, std::string_view from, const Text& to, std::size_t limit,
                     Budget& budget) {
  const std::string_view view = text.view();
  QUIRE_RETURN_IF_ERROR(budget.scan(view.size()));
  std::vector<std::size_t> places;
  if (from.empty()) {  // Python inserts before every code point and at the end
    const std::size_t most = std::min(limit, view.size() + 1);
    QUIRE_RETURN_IF_ERROR(budget.step(most / 2));
    QUIRE_RETURN_IF_ERROR(budget.bytes(most * 2 * sizeof(std::size_t)));
    for (std::size_t i = 0; places.size() < limit;) {
      places.push_back(i);
      if (i >= view.size()) break;
      next_code_point(view, i);
    }
  } else {
    QUIRE_ASSIGN_OR_RETURN(places, find_all(view, from, limit, false, budget));
  }
  QUIRE_RETURN_IF_ERROR(
      budget.bytes(kObjectBytes + text.weight() + places.size() * (to.weight() + sizeof(Value))));
  QUIRE_RETURN_IF_ERROR(
      budget.step(places.size() + (view.size() + places.size() * to.size()) / 64));
  Text out;
  out.reserve(view.size() + places.size() * to.size());
  std::size_t at = 0;
  for (const std::size_t place : places) {
    out.append_part(text, at, place);
    out.append(to);
    at = place + from.size();
  }
  out.append_part(text, at, view.size());
  return out;
}

Result<Text> join(const Text& separator, const std::vector<Value>& strings, Budget& budget) {
  Text out;
  std::size_t size = 0;
  for (const Value& string : strings) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    if (string.is_string()) size += separator.size() + string.view().size();
    QUIRE_RETURN_IF_ERROR(budget.scan(string.is_string() ? string.view().size() : 0));
  }
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + size));
  QUIRE_RETURN_IF_ERROR(budget.scan(size));
  out.reserve(size);
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (!strings[i].is_string()) {
      return Status::invalid_argument("join: item " + std::to_string(i) + " is a " +
                                      std::string(kind_name(strings[i])) + ", not a str");
    }
    QUIRE_RETURN_IF_ERROR(budget.bytes(separator.weight() - separator.size() +
                                       strings[i].text().weight() - strings[i].view().size()));
    if (i > 0) out.append(separator);
    out.append(strings[i].text());
  }
  return out;
}

Result<std::vector<Text>> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.characters(text.size()));
  QUIRE_RETURN_IF_ERROR(budget.bytes(text.weight()));
  std::vector<Text> out;
  const std::string_view view = text.view();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(view, i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < view.size() && view[i] == '\n') ++i;
    QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes));
    QUIRE_RETURN_IF_ERROR(budget.step());
    out.push_back(text.substr(begin, keep_ends ? i : at));
    begin = i;
  }
  if (begin < view.size()) out.push_back(text.substr(begin, view.size()));
  return out;
}

bool is_case(std::string_view text, bool upper) {
  bool found = false;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    found |= upper ? is_upper(c) : is_lower(c);
  }
  return found;
}

}  // namespace quire::jinja
