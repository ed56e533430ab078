// Sets of numbers.
#include <algorithm>

#include <fmt/format.h>

#include "text/grammar/fixed_dfa.h"
#include "text/grammar/json_schema_number_values.h"
#include "text/grammar/json_schema_sets.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

Result<Dfa> number_regex(std::string_view pattern, GrammarBudget& budget) {
  return regex_to_dfa(pattern, RegexOptions(), budget);
}

const NumberValues& integer_values() {
  static const NumberValues values{NumberPattern::integers(kAnyWriting), {}};
  return values;
}

// All spellings without an exponent.
const Dfa& decimals(bool integers) {
  static const auto make = [](const NumberValues& values) {
    return fixed_dfa([&](GrammarBudget& budget) { return decimal_spellings(values, budget); });
  };
  static const Dfa of_integers = make(integer_values());
  static const Dfa of_all = make(NumberValues::all());
  return integers ? of_integers : of_all;
}

// Spellings with an exponent, all of numbers that a double can be.
Dfa make_exponent_spellings(bool integers) {
  const std::string fraction =
      fmt::format("(\\.{}{{1,{}}})?", integers ? "0" : "[0-9]", NumberSet::kMaxFractionDigits);
  const std::string whole = fmt::format("-?(0|[1-9][0-9]{{0,{}}})", NumberSet::kMaxWholeDigits - 1);
  std::string pattern =
      fmt::format("{}{}[eE]{}[0-9]{{1,2}}", whole, fraction, integers ? "\\+?" : "[-+]?");
  pattern +=
      fmt::format("|-?[0-9]{}[eE]\\+?([12][0-9]{{2}}|30[0-7])|-?1(\\.0+)?[eE]\\+?308", fraction);
  if (!integers) pattern += fmt::format("|-?[0-9]{}[eE]-([12][0-9]{{2}}|30[0-7])", fraction);
  return fixed_dfa([&](GrammarBudget& budget) { return number_regex(pattern, budget); });
}

const Dfa& exponent_spellings(bool integers) {
  static const Dfa of_integers = make_exponent_spellings(true);
  static const Dfa of_all = make_exponent_spellings(false);
  return integers ? of_integers : of_all;
}

// All spellings of integers, or of any number.
const Dfa& number_spellings(bool integers) {
  static const auto joined = [](const Dfa& without, const Dfa& exponents) {
    return fixed_dfa([&](GrammarBudget& budget) {
      return dfa_union(std::vector<Dfa>{without, exponents}, budget);
    });
  };
  static const Dfa of_integers = joined(decimals(true), exponent_spellings(true));
  static const Dfa of_all = joined(decimals(false), exponent_spellings(false));
  return integers ? of_integers : of_all;
}

}  // namespace

NumberSet NumberSet::some(NumberValues values, Exponents exponents) {
  if (values.is_none() && exponents == Exponents::kNone) return none();
  NumberSet set(Kind::kSome);
  set.values_ = std::make_shared<const NumberValues>(std::move(values));
  set.exponents_ = exponents;
  return set;
}

NumberSet::Exponents NumberSet::exponents() const {
  if (kind_ == Kind::kAll) return Exponents::kAll;
  if (kind_ == Kind::kNone) return Exponents::kNone;
  return kind_ == Kind::kIntegers ? Exponents::kIntegers : exponents_;
}

bool NumberSet::is_none() const {
  return kind_ == Kind::kNone ||
         (kind_ == Kind::kSome && values_->is_none() && exponents_ == Exponents::kUnknown);
}

NumberSet NumberSet::integers_without_point() {
  return some({NumberPattern::integers(kWithoutPoint), {}}, Exponents::kUnknown);
}

Result<NumberSet> NumberSet::equal_to(std::span<const Decimal> values, GrammarBudget& budget) {
  NumberValues these;
  for (const Decimal& value : values) {
    if (value.whole.size() > kMaxWholeDigits || value.fraction.size() > kMaxFractionDigits) {
      return Status::unimplemented(
          fmt::format("JSON Schema: a constant number of more than {} digits before or {} behind "
                      "the point",
                      kMaxWholeDigits, kMaxFractionDigits),
          "use a smaller number, or a string");
    }
    QUIRE_RETURN_IF_ERROR(budget.tick(16));
    these.bounds.push_back({value, kAnyWriting, NumberPattern()});
  }
  if (these.bounds.empty()) return none();
  std::ranges::sort(these.bounds, is_less, &NumberValues::Bound::at);
  const auto again = std::unique(these.bounds.begin(), these.bounds.end());
  these.bounds.erase(again, these.bounds.end());
  return some(std::move(these), Exponents::kUnknown);
}

NumberSet NumberSet::at_least(const Decimal& bound, bool exclusive) {
  if (bound.whole.size() > kMaxWholeDigits && !bound.negative) return none();
  const NumberWriting there = exclusive ? kNotWritten : kAnyWriting;
  return some({NumberPattern(), {{bound, there, NumberPattern(kAnyWriting)}}}, Exponents::kUnknown);
}

NumberSet NumberSet::at_most(const Decimal& bound, bool exclusive) {
  if (bound.whole.size() > kMaxWholeDigits && bound.negative) return none();
  const NumberWriting there = exclusive ? kNotWritten : kAnyWriting;
  return some({NumberPattern(kAnyWriting), {{bound, there, NumberPattern()}}}, Exponents::kUnknown);
}

Result<NumberSet> NumberSet::multiple_of(const Decimal& divisor) {
  std::uint32_t digits = 0;
  for (const char c : divisor.whole + divisor.fraction) {
    digits = digits * 10 + static_cast<std::uint32_t>(c - '0');
    if (digits > kMaxDivisor) {
      return Status::unimplemented(
          fmt::format("a divisor of more than {} (its point left out)", kMaxDivisor),
          "use a divisor with fewer digits");
    }
  }
  const std::size_t places = divisor.fraction.size();
  if (places > kMaxFractionDigits) {
    return Status::unimplemented(
        fmt::format("a divisor of more than {} digits behind its point", kMaxFractionDigits),
        "use a divisor with fewer digits");
  }
  const NumberPattern multiples = NumberPattern::multiples(digits, places);
  const bool all_integers = multiples.of(0, 1, false) != kNotWritten;
  return some({multiples, {}}, all_integers ? Exponents::kIntegers : Exponents::kUnknown);
}

const NumberValues& NumberSet::values() const {
  static const NumberValues none;
  static const NumberValues all = NumberValues::all();
  if (kind_ == Kind::kAll) return all;
  if (kind_ == Kind::kNone) return none;
  if (kind_ == Kind::kIntegers) return integer_values();
  return *values_;
}

Result<Dfa> NumberSet::language(GrammarBudget& budget) const {
  if (kind_ == Kind::kAll || kind_ == Kind::kIntegers) {
    return number_spellings(kind_ == Kind::kIntegers);
  }
  QUIRE_ASSIGN_OR_RETURN(Dfa decimals, decimal_spellings(values(), budget));
  const Exponents which = exponents();
  if (which == Exponents::kNone || which == Exponents::kUnknown) return decimals;
  const Dfa& others = exponent_spellings(which == Exponents::kIntegers);
  return dfa_union(std::vector<Dfa>{std::move(decimals), others}, budget);
}

bool NumberSet::operator==(const NumberSet& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ != Kind::kSome) return true;
  return exponents_ == other.exponents_ && (values_ == other.values_ || *values_ == *other.values_);
}

Result<NumberSet> intersect(const NumberSet& a, const NumberSet& b, GrammarBudget& budget) {
  using Exponents = NumberSet::Exponents;
  if (a.kind() == NumberSet::Kind::kAll || b.kind() == NumberSet::Kind::kNone || a == b) return b;
  if (b.kind() == NumberSet::Kind::kAll || a.kind() == NumberSet::Kind::kNone) return a;
  QUIRE_ASSIGN_OR_RETURN(NumberValues both,
                         combine(a.values(), b.values(), SetOperation::kAnd, budget));
  Exponents exponents = Exponents::kUnknown;
  if (a.exponents() == Exponents::kNone || b.exponents() == Exponents::kNone) {
    exponents = Exponents::kNone;
  } else if (a.exponents() == b.exponents() || b.exponents() == Exponents::kAll) {
    exponents = a.exponents();
  } else if (a.exponents() == Exponents::kAll) {
    exponents = b.exponents();
  }
  return NumberSet::some(std::move(both), exponents);
}

Result<NumberSet> unite(const NumberSet& a, const NumberSet& b, GrammarBudget& budget) {
  using Exponents = NumberSet::Exponents;
  if (a.kind() == NumberSet::Kind::kAll || b.kind() == NumberSet::Kind::kNone || a == b) return a;
  if (b.kind() == NumberSet::Kind::kAll || a.kind() == NumberSet::Kind::kNone) return b;
  QUIRE_ASSIGN_OR_RETURN(NumberValues either,
                         combine(a.values(), b.values(), SetOperation::kOr, budget));
  // All, or at least the integers, where one of both has them; else what nobody knows.
  Exponents exponents = std::max(a.exponents(), b.exponents());
  return NumberSet::some(std::move(either), exponents);
}

Result<NumberSet> complement(const NumberSet& set, GrammarBudget& budget) {
  using Exponents = NumberSet::Exponents;
  if (set.kind() == NumberSet::Kind::kAll) return NumberSet::none();
  if (set.kind() == NumberSet::Kind::kNone) return NumberSet::all();
  QUIRE_ASSIGN_OR_RETURN(NumberValues rest, combine(NumberValues::all(), set.values(),
                                                    SetOperation::kWithout, budget));
  Exponents exponents = Exponents::kUnknown;
  if (set.exponents() == Exponents::kAll) exponents = Exponents::kNone;
  if (set.exponents() == Exponents::kNone) exponents = Exponents::kAll;
  return NumberSet::some(std::move(rest), exponents);
}

}  // namespace quire
