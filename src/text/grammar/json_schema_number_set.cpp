// Sets of numbers.
#include <algorithm>

#include <fmt/format.h>

#include "text/grammar/fixed_dfa.h"
#include "text/grammar/json_schema_sets.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

constexpr std::string_view kZeroMagnitude = "0(\\.0+)?";

Result<Dfa> number_regex(std::string_view pattern, GrammarBudget& budget) {
  return regex_to_dfa(pattern, RegexOptions(), budget);
}

// All spellings without an exponent.
const Dfa& all_decimals() {
  static const Dfa dfa = fixed_dfa([](GrammarBudget& budget) {
    return number_regex(fmt::format("-?(0|[1-9][0-9]{{0,{}}})(\\.[0-9]{{1,{}}})?",
                                    NumberSet::kMaxWholeDigits - 1, NumberSet::kMaxFractionDigits),
                        budget);
  });
  return dfa;
}

const Dfa& integer_decimals() {
  static const Dfa dfa = fixed_dfa([](GrammarBudget& budget) {
    return number_regex(fmt::format("-?(0|[1-9][0-9]{{0,{}}})(\\.0{{1,{}}})?",
                                    NumberSet::kMaxWholeDigits - 1, NumberSet::kMaxFractionDigits),
                        budget);
  });
  return dfa;
}

// Any number of digits, as bounds are compared with.
const Dfa& any_magnitude() {
  static const Dfa dfa = fixed_dfa(
      [](GrammarBudget& budget) { return number_regex("(0|[1-9][0-9]*)(\\.[0-9]+)?", budget); });
  return dfa;
}

// Spellings with an exponent, all of numbers that a double can hold.
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
  static const auto joined = [](const Dfa& decimals, const Dfa& exponents) {
    return fixed_dfa([&](GrammarBudget& budget) {
      return dfa_union(std::vector<Dfa>{decimals, exponents}, budget);
    });
  };
  static const Dfa of_integers = joined(integer_decimals(), exponent_spellings(true));
  static const Dfa of_all = joined(all_decimals(), exponent_spellings(false));
  return integers ? of_integers : of_all;
}

// Digits 'digit' + 1 to 9 as a class; empty for 9.
std::string digits_above(char digit) {
  return digit == '9' ? std::string() : fmt::format("[{}-9]", static_cast<char>(digit + 1));
}

// Magnitudes above `bound` (or equal, unless `exclusive`), as a pattern.
std::string magnitudes_above(const Decimal& bound, bool exclusive) {
  const std::string whole = bound.whole.empty() ? "0" : bound.whole;
  const std::string& fraction = bound.fraction;
  constexpr std::string_view kRest = "(\\.[0-9]+)?";
  std::string pattern = bound.whole.empty()
                            ? fmt::format("[1-9][0-9]*{}", kRest)
                            : fmt::format("[1-9][0-9]{{{},}}{}", whole.size(), kRest);
  for (std::size_t i = 0; i < bound.whole.size(); ++i) {
    const std::string above = digits_above(whole[i]);
    if (above.empty()) continue;
    pattern +=
        fmt::format("|{}{}[0-9]{{{}}}{}", whole.substr(0, i), above, whole.size() - i - 1, kRest);
  }
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    const std::string above = digits_above(fraction[i]);
    if (above.empty()) continue;
    pattern += fmt::format("|{}\\.{}{}[0-9]*", whole, fraction.substr(0, i), above);
  }
  if (exclusive) return pattern + fmt::format("|{}\\.{}0*[1-9][0-9]*", whole, fraction);
  if (fraction.empty()) return pattern + fmt::format("|{}{}", whole, kRest);
  return pattern + fmt::format("|{}\\.{}[0-9]*", whole, fraction);
}

// Magnitudes on one side of `bound`.
Result<Dfa> magnitudes(const Decimal& bound, bool above, bool exclusive, GrammarBudget& budget) {
  if (bound.whole.size() > NumberSet::kMaxWholeDigits) {
    return above ? Dfa::nothing() : any_magnitude();
  }
  if (above) return number_regex(magnitudes_above(bound, exclusive), budget);
  QUIRE_ASSIGN_OR_RETURN(const Dfa beyond,
                         number_regex(magnitudes_above(bound, !exclusive), budget));
  return dfa_difference(any_magnitude(), beyond, budget);
}

// `positive` as it is and `negative` with a minus sign, within the limits of digits.
Result<Dfa> join_signs(Dfa positive, Dfa negative, GrammarBudget& budget) {
  const std::vector<Dfa> signed_parts = {Dfa::literal("-"), std::move(negative)};
  QUIRE_ASSIGN_OR_RETURN(Dfa with_sign, dfa_concat(signed_parts, budget));
  const std::vector<Dfa> parts = {std::move(positive), std::move(with_sign)};
  QUIRE_ASSIGN_OR_RETURN(const Dfa both, dfa_union(parts, budget));
  return dfa_intersect(both, all_decimals(), budget);
}

// Numbers on one side of `bound`: those from `bound` away from zero on its own side of it, or all
// that lie towards zero and beyond.
Result<Dfa> one_side(const Decimal& bound, bool upwards, bool exclusive, GrammarBudget& budget) {
  Dfa same;   // spellings of the sign that the direction has
  Dfa other;  // and of the other sign
  if (bound.is_zero()) {
    QUIRE_ASSIGN_OR_RETURN(
        same, exclusive ? magnitudes(bound, true, true, budget) : Result<Dfa>(any_magnitude()));
    if (!exclusive) {
      QUIRE_ASSIGN_OR_RETURN(other, number_regex(kZeroMagnitude, budget));
    }
  } else if (bound.negative != upwards) {
    QUIRE_ASSIGN_OR_RETURN(same, magnitudes(bound, true, exclusive, budget));
  } else {
    same = any_magnitude();
    QUIRE_ASSIGN_OR_RETURN(other, magnitudes(bound, false, exclusive, budget));
  }
  if (upwards) return join_signs(std::move(same), std::move(other), budget);
  return join_signs(std::move(other), std::move(same), budget);
}

}  // namespace

NumberSet NumberSet::some(Dfa decimals, Exponents exponents) {
  if (decimals.is_empty() && exponents == Exponents::kNone) return none();
  NumberSet set(Kind::kSome);
  set.dfa_ = std::make_shared<const Dfa>(std::move(decimals));
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
         (kind_ == Kind::kSome && dfa_->is_empty() && exponents_ == Exponents::kUnknown);
}

Result<NumberSet> NumberSet::integers_without_point(GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      Dfa dfa, number_regex(fmt::format("-?(0|[1-9][0-9]{{0,{}}})", kMaxWholeDigits - 1), budget));
  return some(std::move(dfa), Exponents::kUnknown);
}

Result<NumberSet> NumberSet::equal_to(std::span<const Decimal> values, GrammarBudget& budget) {
  std::string integers;
  std::string fractions;
  for (const Decimal& value : values) {
    if (value.whole.size() > kMaxWholeDigits || value.fraction.size() > kMaxFractionDigits) {
      return Status::unimplemented(
          fmt::format("JSON Schema: a constant number of more than {} digits before or {} behind "
                      "the point",
                      kMaxWholeDigits, kMaxFractionDigits),
          "use a smaller number, or a string");
    }
    std::string& group = value.fraction.empty() ? integers : fractions;
    if (!group.empty()) group += '|';
    group += value.is_zero() ? "-?" : value.negative ? "-" : "";
    group += value.whole.empty() ? "0" : value.whole;
    if (!value.fraction.empty()) group += "\\." + value.fraction;
  }
  std::string pattern;
  if (!integers.empty()) pattern = fmt::format("({})(\\.0+)?", integers);
  if (!integers.empty() && !fractions.empty()) pattern += '|';
  if (!fractions.empty()) pattern += fmt::format("({})0*", fractions);
  if (pattern.empty()) return none();
  QUIRE_ASSIGN_OR_RETURN(const Dfa spelled, number_regex(pattern, budget));
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, dfa_intersect(spelled, all_decimals(), budget));
  return some(std::move(dfa), Exponents::kUnknown);
}

Result<NumberSet> NumberSet::at_least(const Decimal& bound, bool exclusive, GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, one_side(bound, true, exclusive, budget));
  return some(std::move(dfa), Exponents::kUnknown);
}

Result<NumberSet> NumberSet::at_most(const Decimal& bound, bool exclusive, GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, one_side(bound, false, exclusive, budget));
  return some(std::move(dfa), Exponents::kUnknown);
}

const Dfa& NumberSet::decimals() const {
  static const Dfa nothing;
  if (kind_ == Kind::kAll) return all_decimals();
  if (kind_ == Kind::kNone) return nothing;
  if (kind_ == Kind::kIntegers) return integer_decimals();
  return *dfa_;
}

Result<Dfa> NumberSet::language(GrammarBudget& budget) const {
  const Exponents which = exponents();
  if (which == Exponents::kNone || which == Exponents::kUnknown) return decimals();
  const bool integers = which == Exponents::kIntegers;
  if (kind_ == Kind::kAll || kind_ == Kind::kIntegers) return number_spellings(integers);
  return dfa_union(std::vector<Dfa>{decimals(), exponent_spellings(integers)}, budget);
}

bool NumberSet::operator==(const NumberSet& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ != Kind::kSome) return true;
  return exponents_ == other.exponents_ && (dfa_ == other.dfa_ || *dfa_ == *other.dfa_);
}

Result<NumberSet> intersect(const NumberSet& a, const NumberSet& b, GrammarBudget& budget) {
  using Exponents = NumberSet::Exponents;
  if (a.kind() == NumberSet::Kind::kAll || b.kind() == NumberSet::Kind::kNone || a == b) return b;
  if (b.kind() == NumberSet::Kind::kAll || a.kind() == NumberSet::Kind::kNone) return a;
  QUIRE_ASSIGN_OR_RETURN(Dfa both, dfa_intersect(a.decimals(), b.decimals(), budget));
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
  QUIRE_ASSIGN_OR_RETURN(Dfa either,
                         dfa_union(std::vector<Dfa>{a.decimals(), b.decimals()}, budget));
  // All, or at least the integers, where one of both has them; else what nobody knows.
  Exponents exponents = std::max(a.exponents(), b.exponents());
  return NumberSet::some(std::move(either), exponents);
}

Result<NumberSet> complement(const NumberSet& set, GrammarBudget& budget) {
  using Exponents = NumberSet::Exponents;
  if (set.kind() == NumberSet::Kind::kAll) return NumberSet::none();
  if (set.kind() == NumberSet::Kind::kNone) return NumberSet::all();
  QUIRE_ASSIGN_OR_RETURN(Dfa rest, dfa_difference(all_decimals(), set.decimals(), budget));
  Exponents exponents = Exponents::kUnknown;
  if (set.exponents() == Exponents::kAll) exponents = Exponents::kNone;
  if (set.exponents() == Exponents::kNone) exponents = Exponents::kAll;
  return NumberSet::some(std::move(rest), exponents);
}

}  // namespace quire
