#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "text/grammar/json_schema_sets.h"

namespace quire {
namespace {

// A set, and the same by arithmetic, of a number of hundredths.
struct CheckedSet {
  NumberSet set = NumberSet::none();
  std::function<bool(int)> has;
  std::string name;
};

Decimal hundredths(int value) { return decimal_of(json::value(value / 100.0)); }

CheckedSet leaf(std::uint64_t random) {
  const int bound = static_cast<int>(random >> 8 & 0xFFF) - 2048;
  switch (random % 6) {
    case 0:
      return {NumberSet::at_least(hundredths(bound), false), [bound](int x) { return x >= bound; },
              fmt::format(">= {}", bound)};
    case 1:
      return {NumberSet::at_most(hundredths(bound), true), [bound](int x) { return x < bound; },
              fmt::format("< {}", bound)};
    case 2:
      return {NumberSet::integers(), [](int x) { return x % 100 == 0; }, "integer"};
    case 3: {
      const Decimal values[] = {hundredths(bound), hundredths(bound / 100 * 100)};
      GrammarBudget budget;
      return {NumberSet::equal_to(values, budget).value(),
              [bound](int x) { return x == bound || x == bound / 100 * 100; },
              fmt::format("= {}", bound)};
    }
    default: {
      constexpr int kDivisors[] = {300, 400, 700, 25, 50, 5, 1200, 10};
      const int divisor = kDivisors[random >> 32 & 7];
      return {NumberSet::multiple_of(hundredths(divisor)).value(),
              [divisor](int x) { return x % divisor == 0; }, fmt::format("multiple {}", divisor)};
    }
  }
}

CheckedSet combined(std::uint64_t seed, int depth) {
  const std::uint64_t random = random_bits(seed, static_cast<std::uint64_t>(depth));
  if (depth == 0) return leaf(random);
  GrammarBudget budget;
  const CheckedSet a = combined(random, depth - 1);
  if (random % 5 == 0) {
    return {complement(a.set, budget).value(), [a](int x) { return !a.has(x); },
            "not (" + a.name + ")"};
  }
  const CheckedSet b = combined(random + 1, depth - 1);
  if (random % 5 < 3) {
    return {intersect(a.set, b.set, budget).value(), [a, b](int x) { return a.has(x) && b.has(x); },
            "(" + a.name + ") and (" + b.name + ")"};
  }
  return {unite(a.set, b.set, budget).value(), [a, b](int x) { return a.has(x) || b.has(x); },
          "(" + a.name + ") or (" + b.name + ")"};
}

// Its digits, and with a point or more zeros where those change nothing.
std::vector<std::string> spellings_of(int value) {
  const std::string whole = fmt::format("{}{}", value < 0 ? "-" : "", std::abs(value) / 100);
  std::vector<std::string> spellings = {fmt::format("{}.{:02}", whole, std::abs(value) % 100),
                                        fmt::format("{}.{:02}000", whole, std::abs(value) % 100)};
  if (value % 10 == 0) spellings.push_back(fmt::format("{}.{}", whole, std::abs(value) / 10 % 10));
  if (value % 100 == 0) spellings.push_back(whole);
  if (value == 0) spellings.emplace_back("-0.0");
  return spellings;
}

TEST(NumberSet, IsWhatArithmeticSays) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CheckedSet checked = combined(seed, 1 + static_cast<int>(seed % 3));
    GrammarBudget budget;
    const Dfa language = checked.set.language(budget).value();
    bool any = false;
    for (int value = -2500; value <= 2500; value += 1 + static_cast<int>(seed % 4)) {
      const bool has = checked.has(value);
      any = any || has;
      for (const std::string& text : spellings_of(value)) {
        ASSERT_EQ(language.matches(text), has) << checked.name << ": " << text;
      }
    }
    EXPECT_FALSE(any && checked.set.is_none()) << checked.name;
    EXPECT_FALSE(checked.set.is_none() && !language.is_empty()) << checked.name;
  }
}

TEST(NumberSet, KnowsThatBetweenTwoBoundsThereIsNoMultiple) {
  GrammarBudget budget;
  const auto between = [&](int low, int high, const NumberSet& set) {
    const NumberSet range = intersect(NumberSet::at_least(hundredths(low), true),
                                      NumberSet::at_most(hundredths(high), true), budget)
                                .value();
    return intersect(range, set, budget).value();
  };
  EXPECT_TRUE(between(500, 600, NumberSet::integers()).is_none());
  EXPECT_FALSE(between(500, 601, NumberSet::integers()).is_none());
  const NumberSet sevens = NumberSet::multiple_of(hundredths(700)).value();
  EXPECT_TRUE(between(-1399, -701, sevens).is_none());
  EXPECT_FALSE(between(-1401, -701, sevens).is_none());
}

TEST(NumberSet, OfManyDigitsIsComparedToTheLast) {
  GrammarBudget budget;
  Decimal bound;
  bound.whole = "1" + std::string(40, '0');
  bound.fraction = std::string(30, '0') + "1";
  const Dfa above = NumberSet::at_least(bound, true).language(budget).value();
  const std::string whole = bound.whole + ".";
  EXPECT_FALSE(above.matches(whole + bound.fraction));
  EXPECT_TRUE(above.matches(whole + bound.fraction + "1"));
  EXPECT_FALSE(above.matches(bound.whole));
  EXPECT_TRUE(above.matches("2" + std::string(40, '0')));
  EXPECT_FALSE(above.matches("9" + std::string(39, '0')));
  EXPECT_FALSE(above.matches("1" + std::string(NumberSet::kMaxWholeDigits, '0')));
}

TEST(NumberSet, RefusesDivisorsWhoseMultiplesHaveNoCommonPeriod) {
  GrammarBudget budget;
  NumberSet none_of = NumberSet::all();
  Status status;
  for (const int divisor : {4093, 4091, 4079}) {
    const NumberSet multiples = NumberSet::multiple_of(hundredths(divisor * 100)).value();
    const NumberSet others = complement(multiples, budget).value();
    const Result<NumberSet> both = intersect(none_of, others, budget);
    status = both.status();
    if (!both.ok()) break;
    none_of = *both;
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("multipleOf"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quire
