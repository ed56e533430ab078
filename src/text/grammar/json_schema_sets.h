// Sets of strings and of numbers as a schema's keywords give them: closed under and, or, not.
//
// A set of strings is one of texts as they are meant, before JSON escapes any of it; its regular
// languages are of UTF-8. A set of numbers is one of spellings: equal numbers are in it or not
// together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/json_schema_characters.h"
#include "text/grammar/json_schema_decimal.h"
#include "text/grammar/json_schema_number_values.h"
#include "text/grammar/limits.h"
#include "text/grammar/open_automaton.h"

namespace quire {

// An automaton that is made when it is first asked for: not all that a format has are needed.
class DfaOnDemand {
 public:
  explicit DfaOnDemand(std::function<Dfa()> make) : make_(std::move(make)) {}
  explicit DfaOnDemand(Dfa dfa) : dfa_(std::move(dfa)) {}

  // The same each time. Any thread.
  const Dfa& get() const;
  // Over characters; get() is not empty. Fails as character_automaton(), and is kept otherwise.
  Result<std::shared_ptr<const CharacterAutomaton>> characters(GrammarBudget& budget) const;

 private:
  std::function<Dfa()> make_;
  mutable std::once_flag made_;
  mutable Dfa dfa_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const CharacterAutomaton> characters_;  // guarded by mutex_
};

// A language that has all texts that a regular set lacks. Only complements ask for it, so that it
// is made when it is first asked for.
class TextsAround {
 public:
  using Make = std::function<Result<Dfa>()>;

  explicit TextsAround(Make make) : make_(std::move(make)) {}
  // Both; either may be null.
  static std::shared_ptr<const TextsAround> join(std::shared_ptr<const TextsAround> a,
                                                 std::shared_ptr<const TextsAround> b);

  // The same each time. An error where no such language is known. Any thread.
  const Result<Dfa>& language() const;

 private:
  Make make_;
  mutable std::once_flag made_;
  mutable std::optional<Result<Dfa>> language_;
};

// Texts that a regular set means besides those of its Dfa. One format has an automaton of them, so
// that where two sets have one it is the same.
struct OpenTexts {
  std::shared_ptr<const OpenAutomaton> automaton;  // has them, and those of the Dfa; null: lost
  std::shared_ptr<const TextsAround> around;       // null: there are none
  std::uint32_t max_length = 0;
};

class StringSet {
 public:
  enum class Kind : std::uint8_t { kThese, kAllBut, kLength, kRegular };

  static StringSet all() { return StringSet(Kind::kAllBut); }
  static StringSet none() { return StringSet(Kind::kThese); }
  static StringSet these(std::vector<std::string> texts);
  static StringSet all_but(std::vector<std::string> texts);
  // From `min` to `max` characters (any number).
  static StringSet length(std::uint32_t min, std::optional<std::uint32_t> max);
  static StringSet regular(Dfa dfa);
  // One that is kept, with its JSON spellings (json_schema_escapes.h). Not empty, not all texts.
  static StringSet kept(std::shared_ptr<const DfaOnDemand> dfa,
                        std::shared_ptr<const DfaOnDemand> spelled, OpenTexts more = {});

  Kind kind() const { return kind_; }
  bool is_all() const { return kind_ == Kind::kAllBut && texts_->empty(); }
  bool is_none() const { return kind_ == Kind::kThese && texts_->empty(); }
  bool contains(std::string_view text) const;

  const std::vector<std::string>& texts() const { return *texts_; }  // kThese, kAllBut: sorted
  // kRegular: of which texts have min() to max() characters.
  const Dfa& automaton() const { return dfa_->get(); }
  Result<std::shared_ptr<const CharacterAutomaton>> characters(GrammarBudget& budget) const {
    return dfa_->characters(budget);
  }
  const std::shared_ptr<const DfaOnDemand>& spelled() const {  // of automaton(); null if unknown
    return spelled_;
  }
  // kRegular: what is meant besides. Sets made from this one by anything but a union lose those
  // texts, and so does a complement: each has fewer texts than are meant rather than more.
  const OpenTexts& more() const { return more_; }
  // The same set, if it is kRegular known to lack texts of `around`, which may be null.
  StringSet lacking(std::shared_ptr<const TextsAround> around) const;
  // kLength, kRegular.
  std::uint32_t min() const { return min_; }
  std::optional<std::uint32_t> max() const { return max_; }
  bool is_counted() const { return min_ > 0 || max_; }
  // Without more().
  Result<Dfa> language(GrammarBudget& budget) const;
  // With what more() is around of.
  Result<Dfa> language_around(GrammarBudget& budget) const;

  bool operator==(const StringSet& other) const;

 private:
  explicit StringSet(Kind kind)
      : kind_(kind), texts_(std::make_shared<const std::vector<std::string>>()) {}

  Kind kind_;
  std::shared_ptr<const std::vector<std::string>> texts_;
  friend Result<StringSet> of_length(const StringSet&, std::uint32_t, std::optional<std::uint32_t>,
                                     GrammarBudget&);
  friend Result<StringSet> unite(const StringSet&, const StringSet&, GrammarBudget&);

  std::shared_ptr<const DfaOnDemand> dfa_;
  std::shared_ptr<const DfaOnDemand> spelled_;
  OpenTexts more_;
  std::uint32_t min_ = 0;
  std::optional<std::uint32_t> max_;
};

// kResourceExhausted and kCancelled by `budget`.
Result<StringSet> intersect(const StringSet& a, const StringSet& b, GrammarBudget& budget);
// The texts of `set`, which is kRegular, of `min` to `max` characters.
Result<StringSet> of_length(const StringSet& set, std::uint32_t min,
                            std::optional<std::uint32_t> max, GrammarBudget& budget);
Result<StringSet> unite(const StringSet& a, const StringSet& b, GrammarBudget& budget);
Result<StringSet> complement(const StringSet& set, GrammarBudget& budget);
// The texts of `a` that are not of `b`.
Result<StringSet> difference(const StringSet& a, const StringSet& b, GrammarBudget& budget);

class NumberSet {
 public:
  // Digits that a number may have before and behind its point.
  static constexpr std::uint32_t kMaxWholeDigits = 64;
  static constexpr std::uint32_t kMaxFractionDigits = 32;
  // For `multipleOf`: the divisor's digits as an integer.
  static constexpr std::uint32_t kMaxDivisor = 4096;
  // Digits before the point of multiples, since each needs a state for each remainder.
  static constexpr std::uint32_t kMaxWholeDigitsDivided = 18;

  enum class Kind : std::uint8_t { kAll, kNone, kIntegers, kSome };
  // Which spellings with an exponent are in a set. Comparing those digit by digit is not regular,
  // so that a set that bounds them has none, and says that it might.
  enum class Exponents : std::uint8_t { kNone, kUnknown, kIntegers, kAll };

  static NumberSet all() { return NumberSet(Kind::kAll); }
  static NumberSet none() { return NumberSet(Kind::kNone); }
  static NumberSet integers() { return NumberSet(Kind::kIntegers); }
  // Draft 4: 1.0 is none.
  static NumberSet integers_without_point();
  // One of `values`.
  static Result<NumberSet> equal_to(std::span<const Decimal> values, GrammarBudget& budget);
  static NumberSet at_least(const Decimal& bound, bool exclusive);
  static NumberSet at_most(const Decimal& bound, bool exclusive);
  // `divisor` > 0. kUnimplemented beyond kMaxDivisor.
  static Result<NumberSet> multiple_of(const Decimal& divisor);

  Kind kind() const { return kind_; }
  bool is_none() const;
  // Of the spellings without an exponent.
  const NumberValues& values() const;
  // All spellings.
  Result<Dfa> language(GrammarBudget& budget) const;

  bool operator==(const NumberSet& other) const;

 private:
  explicit NumberSet(Kind kind) : kind_(kind) {}
  static NumberSet some(NumberValues values, Exponents exponents);
  Exponents exponents() const;

  friend Result<NumberSet> intersect(const NumberSet&, const NumberSet&, GrammarBudget&);
  friend Result<NumberSet> unite(const NumberSet&, const NumberSet&, GrammarBudget&);
  friend Result<NumberSet> complement(const NumberSet&, GrammarBudget&);

  Kind kind_;
  std::shared_ptr<const NumberValues> values_;  // kSome
  Exponents exponents_ = Exponents::kUnknown;   // kSome
};

Result<NumberSet> intersect(const NumberSet& a, const NumberSet& b, GrammarBudget& budget);
Result<NumberSet> unite(const NumberSet& a, const NumberSet& b, GrammarBudget& budget);
Result<NumberSet> complement(const NumberSet& set, GrammarBudget& budget);

}  // namespace quire
