// Sets of numbers by value: between bounds, by the remainders of their digits. Internal to JSON
// Schema's sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/json_schema_decimal.h"
#include "text/grammar/limits.h"

namespace quire {

// How a value is written: without a point (only whole numbers can be), with one, or either. Bits.
using NumberWriting = std::uint8_t;
inline constexpr NumberWriting kNotWritten = 0;
inline constexpr NumberWriting kWithoutPoint = 1;
inline constexpr NumberWriting kWithPoint = 2;
inline constexpr NumberWriting kAnyWriting = 3;

enum class SetOperation : std::uint8_t { kAnd, kOr, kWithout };

// Values of either sign by their digits alone: those that need `places` digits behind the point,
// which then are an integer without one, by that integer's remainder.
class NumberPattern {
 public:
  // A least common multiple of divisors.
  static constexpr std::uint32_t kMaxModulus = 2'000'000;

  // All values, written so.
  explicit NumberPattern(NumberWriting all = kNotWritten) : others_(all) {}
  static NumberPattern integers(NumberWriting writing);
  // Multiples of divisor / 10^places; divisor > 0.
  static NumberPattern multiples(std::uint32_t divisor, std::size_t places);

  NumberWriting of(const Decimal& value) const;
  // Of the values that need `places` digits, by the remainder of their digits, which that of a
  // multiple of their modulus does for.
  NumberWriting of(std::size_t places, std::uint32_t remainder, bool negative) const;
  bool is_constant() const { return classes_ == nullptr; }
  bool is_none() const { return is_constant() && !has_others(); }
  // Whether values that need however many places are written.
  bool has_others() const { return others_ != kNotWritten; }
  // Places from which on all values are alike.
  std::size_t num_places() const { return is_constant() ? 0 : classes_->size(); }
  // Whether some value may need `places` digits or more.
  bool reaches(std::size_t places) const;
  // Of all places together.
  std::size_t num_remainders() const;
  // The least remainder that is written like `remainder`, and like it by `step`.
  std::uint32_t first_like(std::size_t places, std::uint32_t remainder, std::uint32_t step,
                           bool negative) const;
  // The least common multiple of all divisors, with `other`; at most kMaxModulus.
  Result<std::uint32_t> modulus(std::uint32_t other) const;

  friend Result<NumberPattern> combine(const NumberPattern& a, const NumberPattern& b,
                                       SetOperation operation, GrammarBudget& budget);
  bool operator==(const NumberPattern& other) const;
  // Equal without a look at remainders, and ordered so.
  auto identity() const { return std::pair(classes_.get(), others_); }

 private:
  using Class = std::vector<NumberWriting>;  // by remainder; its size is the modulus

  NumberPattern(std::vector<Class> classes, NumberWriting others);
  Class class_at(std::size_t places) const {
    return places < num_places() ? (*classes_)[places] : Class{others_};
  }

  std::shared_ptr<const std::vector<Class>> classes_;  // by places; null: none
  NumberWriting others_;                               // of those that need more
};

struct NumberValues {
  struct Bound {
    Decimal at;
    NumberWriting there = kNotWritten;
    NumberPattern above;  // up to the next bound
    bool operator==(const Bound&) const = default;
  };
  NumberPattern below;        // the first bound
  std::vector<Bound> bounds;  // by value

  static NumberValues all() { return {NumberPattern(kAnyWriting), {}}; }
  bool is_none() const;
  bool operator==(const NumberValues&) const = default;
};

// Whether `a` is less than `b`.
bool is_less(const Decimal& a, const Decimal& b);

// kResourceExhausted naming a limit of `budget` or saying that kMaxModulus is; kCancelled.
Result<NumberValues> combine(const NumberValues& a, const NumberValues& b, SetOperation operation,
                             GrammarBudget& budget);

// The spellings without an exponent, within the digits that NumberSet allows.
Result<Dfa> decimal_spellings(const NumberValues& values, GrammarBudget& budget);

}  // namespace quire
