#include "text/grammar/json_schema_number_values.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

NumberWriting apply(SetOperation operation, NumberWriting a, NumberWriting b) {
  switch (operation) {
    case SetOperation::kAnd:
      return a & b;
    case SetOperation::kOr:
      return a | b;
    case SetOperation::kWithout:
      break;
  }
  return a & static_cast<NumberWriting>(~b);
}

Result<std::uint32_t> common_multiple(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both = std::lcm(a, b);
  if (both <= NumberPattern::kMaxModulus) return static_cast<std::uint32_t>(both);
  return Status::resource_exhausted(
      fmt::format("JSON Schema: divisors of multipleOf with a least common multiple of more than "
                  "{}",
                  NumberPattern::kMaxModulus),
      "use fewer or smaller divisors");
}

// The remainder of digits by `modulus`.
std::uint32_t remainder_of(std::string_view digits, std::uint32_t before, std::uint32_t modulus) {
  std::uint64_t remainder = before;
  for (const char c : digits) {
    remainder = (remainder * 10 + static_cast<std::uint64_t>(c - '0')) % modulus;
  }
  return static_cast<std::uint32_t>(remainder);
}

// Whether remainders by size / factor tell as much.
bool has_period(const std::vector<NumberWriting>& of_remainder, std::size_t period) {
  return std::equal(of_remainder.begin() + static_cast<std::ptrdiff_t>(period), of_remainder.end(),
                    of_remainder.begin());
}

void shorten(std::vector<NumberWriting>& of_remainder) {
  for (std::size_t factor = 2; factor <= of_remainder.size(); ++factor) {
    while (of_remainder.size() % factor == 0 &&
           has_period(of_remainder, of_remainder.size() / factor)) {
      of_remainder.resize(of_remainder.size() / factor);
    }
    if (factor * factor > of_remainder.size()) {
      factor = std::max(factor, of_remainder.size() - 1);  // what is left is a prime's
    }
  }
}

// Digits that fit into 64 bits.
constexpr std::size_t kFewDigits = 17;

// The integer that `value`, moved by `places`, has before its point, rounded down; nullopt where it
// is beyond kFewDigits.
std::optional<std::int64_t> moved_down(const Decimal& value, std::size_t places) {
  if (value.whole.size() + places > kFewDigits) return std::nullopt;
  std::string digits = value.whole + value.fraction.substr(0, places);
  digits.append(value.whole.size() + places - digits.size(), '0');
  std::int64_t number = 0;
  for (const char c : digits) number = number * 10 + (c - '0');
  if (!value.negative) return number;
  return value.fraction.size() > places ? -number - 1 : -number;
}

// The integers between two values that are moved by `places`.
struct IntegersBetween {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t count() const {
    return last < first ? 0 : static_cast<std::size_t>(last - first) + 1;
  }
};

std::optional<IntegersBetween> integers_between(const Decimal& low, const Decimal& high,
                                                std::size_t places) {
  const std::optional<std::int64_t> first = moved_down(low, places);
  const std::optional<std::int64_t> last = moved_down(high, places);
  if (!first || !last) return std::nullopt;
  const bool whole = high.fraction.size() <= places;
  return IntegersBetween{*first + 1, whole ? *last - 1 : *last};
}

Decimal moved_back(std::int64_t number, std::size_t places) {
  Decimal value;
  value.negative = number < 0;
  value.whole = std::to_string(value.negative ? -number : number);
  if (value.whole.size() <= places) value.whole.insert(0, places + 1 - value.whole.size(), '0');
  value.fraction = value.whole.substr(value.whole.size() - places);
  value.whole.resize(value.whole.size() - places);
  if (value.whole == "0") value.whole.clear();
  return value;
}

// Between two bounds, where there are fewer values of a pattern to look at than it has remainders:
// those that are there. Nullopt where there are more.
Result<std::optional<std::vector<NumberValues::Bound>>> few_values(const Decimal& low,
                                                                   const Decimal& high,
                                                                   const NumberPattern& pattern,
                                                                   GrammarBudget& budget) {
  using Bounds = std::vector<NumberValues::Bound>;
  std::vector<IntegersBetween> ranges;
  std::size_t count = 0;
  for (std::size_t places = 0; places < pattern.num_places(); ++places) {
    const std::optional<IntegersBetween> range = integers_between(low, high, places);
    if (!range) return std::optional<Bounds>();
    count += range->count();
    ranges.push_back(*range);
  }
  if (count > pattern.num_remainders()) return std::optional<Bounds>();
  QUIRE_RETURN_IF_ERROR(budget.tick(count));
  Bounds values;
  for (std::size_t places = 0; places < ranges.size(); ++places) {
    for (std::int64_t i = ranges[places].first; i <= ranges[places].last; ++i) {
      if (places > 0 && i % 10 == 0) continue;  // it needs fewer
      Decimal value = moved_back(i, places);
      const NumberWriting there = pattern.of(value);
      if (there != kNotWritten) values.push_back({std::move(value), there, NumberPattern()});
    }
  }
  std::ranges::sort(values, is_less, &NumberValues::Bound::at);
  return std::optional(std::move(values));
}

// Where there are few, values are combined sooner than remainders, and none are seen to be
// none.
Result<NumberValues> list_few(NumberValues values, GrammarBudget& budget) {
  NumberValues listed{std::move(values.below), {}};
  for (std::size_t i = 0; i < values.bounds.size(); ++i) {
    NumberValues::Bound& bound = listed.bounds.emplace_back(std::move(values.bounds[i]));
    if (i + 1 == values.bounds.size() || bound.above.is_none() || bound.above.has_others())
      continue;
    QUIRE_ASSIGN_OR_RETURN(auto few,
                           few_values(bound.at, values.bounds[i + 1].at, bound.above, budget));
    if (!few) continue;
    bound.above = NumberPattern();
    std::ranges::move(*few, std::back_inserter(listed.bounds));
  }
  return listed;
}

}  // namespace

NumberPattern::NumberPattern(std::vector<Class> classes, NumberWriting others) : others_(others) {
  while (!classes.empty() && classes.back() == Class{others}) classes.pop_back();
  if (!classes.empty()) classes_ = std::make_shared<const std::vector<Class>>(std::move(classes));
}

NumberPattern NumberPattern::integers(NumberWriting writing) { return {{{writing}}, kNotWritten}; }

NumberPattern NumberPattern::multiples(std::uint32_t divisor, std::size_t places) {
  std::vector<Class> classes(places + 1);
  std::uint32_t modulus = divisor;
  for (std::size_t i = places + 1; i-- > 0;) {
    classes[i].assign(modulus, kNotWritten);
    classes[i][0] = kAnyWriting;
    modulus /= std::gcd(modulus, 10U);
  }
  return {std::move(classes), kNotWritten};
}

bool NumberPattern::operator==(const NumberPattern& other) const {
  if (identity() == other.identity()) return true;
  return others_ == other.others_ && !is_constant() && !other.is_constant() &&
         *classes_ == *other.classes_;
}

NumberWriting NumberPattern::of(std::size_t places, std::uint32_t remainder, bool negative) const {
  if (places >= num_places()) return others_;
  const Class& of_remainder = (*classes_)[places];
  const std::size_t at = remainder % of_remainder.size();
  return of_remainder[negative && at > 0 ? of_remainder.size() - at : at];
}

NumberWriting NumberPattern::of(const Decimal& value) const {
  const std::size_t places = value.fraction.size();
  if (places >= num_places()) return others_;
  const auto modulus = static_cast<std::uint32_t>((*classes_)[places].size());
  const std::uint32_t whole = remainder_of(value.whole, 0, modulus);
  return of(places, remainder_of(value.fraction, whole, modulus), value.negative);
}

std::uint32_t NumberPattern::first_like(std::size_t places, std::uint32_t remainder,
                                        std::uint32_t step, bool negative) const {
  const NumberWriting writing = of(places, remainder, negative);
  std::uint32_t first = remainder % step;
  while (of(places, first, negative) != writing) first += step;
  return first;
}

bool NumberPattern::reaches(std::size_t places) const {
  if (others_ != kNotWritten) return true;
  for (std::size_t i = places; i < num_places(); ++i) {
    if (std::ranges::any_of((*classes_)[i], [](NumberWriting w) { return w != kNotWritten; })) {
      return true;
    }
  }
  return false;
}

std::size_t NumberPattern::num_remainders() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < num_places(); ++i) count += (*classes_)[i].size();
  return count;
}

Result<std::uint32_t> NumberPattern::modulus(std::uint32_t other) const {
  for (std::size_t i = 0; i < num_places(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(other, common_multiple(other, (*classes_)[i].size()));
  }
  return other;
}

Result<NumberPattern> combine(const NumberPattern& a, const NumberPattern& b,
                              SetOperation operation, GrammarBudget& budget) {
  if (operation == SetOperation::kAnd && (a.is_none() || b.is_none())) return NumberPattern();
  std::vector<NumberPattern::Class> classes;
  const std::size_t places = std::max(a.num_places(), b.num_places());
  for (std::size_t i = 0; i < places; ++i) {
    const NumberPattern::Class left = a.class_at(i);
    const NumberPattern::Class right = b.class_at(i);
    QUIRE_ASSIGN_OR_RETURN(const std::uint32_t modulus, common_multiple(left.size(), right.size()));
    QUIRE_RETURN_IF_ERROR(budget.take_remainders(modulus));
    NumberPattern::Class& of_remainder = classes.emplace_back(modulus);
    for (std::size_t k = 0, l = 0, r = 0; k < modulus; ++k) {
      of_remainder[k] = apply(operation, left[l], right[r]);
      if (++l == left.size()) l = 0;
      if (++r == right.size()) r = 0;
    }
    shorten(of_remainder);
  }
  return NumberPattern(std::move(classes), apply(operation, a.others_, b.others_));
}

bool is_less(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  const Decimal& low = a.negative ? b : a;  // by magnitude
  const Decimal& high = a.negative ? a : b;
  if (low.whole.size() != high.whole.size()) return low.whole.size() < high.whole.size();
  if (low.whole != high.whole) return low.whole < high.whole;
  return low.fraction < high.fraction;
}

bool NumberValues::is_none() const {
  return below.is_none() && std::ranges::all_of(bounds, [](const Bound& bound) {
           return bound.there == kNotWritten && bound.above.is_none();
         });
}

Result<NumberValues> combine(const NumberValues& a, const NumberValues& b, SetOperation operation,
                             GrammarBudget& budget) {
  // The place in one of both, while both are gone through.
  struct Walk {
    const NumberValues* values;
    std::size_t next = 0;
    const NumberPattern* pattern = &values->below;

    const Decimal* bound() const {
      return next < values->bounds.size() ? &values->bounds[next].at : nullptr;
    }
    // Past `at`, which no bound is before.
    NumberWriting pass(const Decimal& at) {
      if (bound() == nullptr || is_less(at, *bound())) return pattern->of(at);
      const NumberValues::Bound& passed = values->bounds[next++];
      pattern = &passed.above;
      return passed.there;
    }
  };
  Walk left{&a};
  Walk right{&b};
  // Each pair of patterns is combined once, however many bounds lie between.
  using Identity = decltype(std::declval<NumberPattern>().identity());
  std::map<std::pair<Identity, Identity>, NumberPattern> known;
  const auto both_patterns = [&]() -> Result<NumberPattern> {
    const auto key = std::pair(left.pattern->identity(), right.pattern->identity());
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    QUIRE_ASSIGN_OR_RETURN(NumberPattern made,
                           combine(*left.pattern, *right.pattern, operation, budget));
    known.emplace(key, made);
    return made;
  };
  NumberValues both;
  QUIRE_ASSIGN_OR_RETURN(both.below, both_patterns());
  const NumberPattern* last = &both.below;
  while (left.bound() != nullptr || right.bound() != nullptr) {
    QUIRE_RETURN_IF_ERROR(budget.tick(8));
    const bool of_left = right.bound() == nullptr ||
                         (left.bound() != nullptr && is_less(*left.bound(), *right.bound()));
    const Decimal& at = of_left ? *left.bound() : *right.bound();
    const NumberWriting mine = left.pass(at);
    const NumberWriting there = apply(operation, mine, right.pass(at));
    QUIRE_ASSIGN_OR_RETURN(NumberPattern above, both_patterns());
    if (above == *last && last->of(at) == there) continue;
    both.bounds.push_back({at, there, std::move(above)});
    last = &both.bounds.back().above;
  }
  return list_few(std::move(both), budget);
}

}  // namespace quire
