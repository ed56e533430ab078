#include "text/grammar/char_set.h"

#include <algorithm>
#include <array>
#include <string>

#include <utf8proc.h>

namespace quire {

namespace {

constexpr char32_t kLastBeforeSurrogates = 0xD7FF;
constexpr char32_t kFirstAfterSurrogates = 0xE000;
constexpr std::size_t kCategories = 30;

// In the order of utf8proc_category_t.
constexpr std::array<std::string_view, kCategories> kCategoryNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

struct LongCategory {
  std::string_view long_name;
  std::string_view name;
};
// PropertyValueAliases.txt of the Unicode Character Database.
constexpr LongCategory kLongCategories[] = {
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Unassigned", "Cn"},
    {"Private_Use", "Co"},
    {"Surrogate", "Cs"},
    {"Letter", "L"},
    {"Cased_Letter", "LC"},
    {"Lowercase_Letter", "Ll"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Titlecase_Letter", "Lt"},
    {"Uppercase_Letter", "Lu"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Nonspacing_Mark", "Mn"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Close_Punctuation", "Pe"},
    {"Final_Punctuation", "Pf"},
    {"Initial_Punctuation", "Pi"},
    {"Other_Punctuation", "Po"},
    {"Open_Punctuation", "Ps"},
    {"Symbol", "S"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Math_Symbol", "Sm"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Space_Separator", "Zs"},
};

// By category; made at the first use, since it asks utf8proc for each code point.
const std::array<CharSet, kCategories>& category_sets() {
  static const auto sets = [] {
    std::array<std::vector<CharRange>, kCategories> ranges;
    for (char32_t code = 0; code <= CharSet::kLastCode; ++code) {
      auto& of =
          ranges[static_cast<std::size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(code)))];
      if (!of.empty() && of.back().last + 1 == code) {
        of.back().last = code;
      } else {
        of.push_back({code, code});
      }
    }
    std::array<CharSet, kCategories> result;
    for (std::size_t i = 0; i < kCategories; ++i) result[i] = CharSet(std::move(ranges[i]));
    return result;
  }();
  return sets;
}

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) : ranges_(ranges) { normalize(); }
CharSet::CharSet(std::vector<CharRange> ranges) : ranges_(std::move(ranges)) { normalize(); }

CharSet CharSet::all() { return {{0, kLastCode}}; }
CharSet CharSet::ascii_digits() { return {{'0', '9'}}; }
CharSet CharSet::ascii_word() { return {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}; }
CharSet CharSet::ascii_space() { return {{0x09, 0x0D}, {' ', ' '}}; }
CharSet CharSet::ecma_space() {
  return {{0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

std::optional<CharSet> CharSet::property(std::string_view name) {
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  if (name == "Any") return all();
  if (name == "ASCII") return CharSet{{0, 0x7F}};
  if (name == "Assigned") return ~category_sets()[0];
  for (const LongCategory& known : kLongCategories) {
    if (known.long_name == name) name = known.name;
  }
  const bool cased = name == "LC" || name == "L&";
  std::optional<CharSet> result;
  for (std::size_t i = 0; i < kCategories; ++i) {
    const std::string_view category = kCategoryNames[i];
    const bool matches = cased ? category == "Lu" || category == "Ll" || category == "Lt"
                               : category == name || (name.size() == 1 && category[0] == name[0]);
    if (matches) result = result ? *result | category_sets()[i] : category_sets()[i];
  }
  return result;
}

CharSet CharSet::operator|(const CharSet& other) const {
  std::vector<CharRange> joined = ranges_;
  joined.insert(joined.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(joined));
}

CharSet CharSet::operator&(const CharSet& other) const {
  CharSet both;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const CharRange range = {std::max(a->first, b->first), std::min(a->last, b->last)};
    if (range.first <= range.last) both.ranges_.push_back(range);
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return both;
}

CharSet CharSet::operator~() const {
  std::vector<CharRange> gaps;
  char32_t from = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > from) gaps.push_back({from, range.first - 1});
    from = range.last + 1;
  }
  if (from <= kLastCode) gaps.push_back({from, kLastCode});
  return CharSet(std::move(gaps));
}

CharSet CharSet::with_both_cases() const {
  std::vector<CharRange> more = ranges_;
  for (const CharRange& range : ranges_) {
    for (char32_t code = range.first; code <= range.last; ++code) {
      const auto point = static_cast<utf8proc_int32_t>(code);
      for (const utf8proc_int32_t other : {utf8proc_tolower(point), utf8proc_toupper(point)}) {
        if (other != point) {
          more.push_back({static_cast<char32_t>(other), static_cast<char32_t>(other)});
        }
      }
    }
  }
  return CharSet(std::move(more));
}

bool CharSet::contains(char32_t code) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), code,
                       [](char32_t value, const CharRange& range) { return value < range.first; });
  return behind != ranges_.begin() && code <= (behind - 1)->last;
}

void CharSet::normalize() {
  std::vector<CharRange> parts;
  for (CharRange range : ranges_) {
    range.last = std::min(range.last, kLastCode);
    if (range.first > range.last) continue;
    if (range.first <= kLastBeforeSurrogates) {
      parts.push_back({range.first, std::min(range.last, kLastBeforeSurrogates)});
    }
    if (range.last >= kFirstAfterSurrogates) {
      parts.push_back({std::max(range.first, kFirstAfterSurrogates), range.last});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const CharRange& a, const CharRange& b) {
    return a.first < b.first || (a.first == b.first && a.last < b.last);
  });
  ranges_.clear();
  for (const CharRange& range : parts) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

}  // namespace quire
