// Numbers written digit by digit: what has been read is known by the bounds that it may still turn
// out to be equal to, or beyond, and by the remainder of its digits.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/json_schema_magnitudes.h"
#include "text/grammar/json_schema_number_values.h"
#include "text/grammar/json_schema_sets.h"

namespace quire {
namespace {

// Bounds first..last - 1 begin with what has been read; those before them are less, all others
// more.
struct BoundRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  auto operator<=>(const BoundRange&) const = default;
  // Of a number that ends here, if `is_first` says whether it is the first of these bounds.
  std::size_t place(bool is_first) const { return 2 * std::size_t{first} - (is_first ? 0 : 1); }
  // Those of all numbers that go on.
  std::size_t first_place() const { return first == 0 ? 0 : 2 * std::size_t{first} - 1; }
  std::size_t last_place() const { return 2 * std::size_t{last} - 1; }
};

// Those that have `digit` next, by `digit_of`.
template <typename DigitOf>
BoundRange narrow(BoundRange bounds, char digit, DigitOf digit_of) {
  const auto end_of = [&](char most) {
    std::uint32_t low = bounds.first;
    for (std::uint32_t high = bounds.last; low < high;) {
      const std::uint32_t middle = (low + high) / 2;
      if (digit_of(middle) <= most) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  return {end_of(static_cast<char>(digit - 1)), end_of(digit)};
}

// Digits before the point.
struct WholeDigits {
  bool negative = false;
  std::uint32_t count = 0;           // none of a lone 0
  std::vector<BoundRange> by_count;  // of bounds with as many digits, with one more, ...
  auto operator<=>(const WholeDigits&) const = default;
};

// And behind it.
struct FractionDigits {
  bool negative = false;
  std::uint32_t count = 0;
  std::uint32_t needed = 0;  // up to the last one that is not 0, as far as it matters
  BoundRange bounds;
  auto operator<=>(const FractionDigits&) const = default;
};

class NumberSpeller {
 public:
  NumberSpeller(const NumberValues& values, GrammarBudget& budget)
      : values_(values),
        sides_{Magnitudes(values, false), Magnitudes(values, true)},
        budget_(budget) {}

  Result<Dfa> run();

 private:
  enum class Phase : std::uint8_t { kStart, kNegative, kWhole, kFraction };
  struct State {
    Phase phase = Phase::kStart;
    std::uint32_t digits = 0;  // of wholes_ or fractions_
    std::uint32_t remainder = 0;
  };

  // What one digit more leads to, whatever the remainder.
  struct NextWhole {
    static constexpr std::uint32_t kNone = UINT32_MAX;  // no number begins so
    std::uint32_t digits = kNone;                       // of wholes_
    bool divided = false;                               // the remainder matters
  };
  using NextWholes = std::array<NextWhole, 10>;  // by the digit

  // The same behind the point.
  struct NextFraction {
    static constexpr std::uint32_t kNone = UINT32_MAX;  // no number goes on so
    std::uint32_t digits = kNone;                       // of fractions_
    bool divided = false;                               // the remainder matters
    std::optional<std::size_t> place;                   // where all are of one
    std::uint32_t step = 1;                             // and what matters of remainders then
  };
  using NextFractions = std::array<NextFraction, 10>;

  const Magnitudes& side(bool negative) const { return sides_[negative ? 1 : 0]; }
  Status find_modulus();
  std::uint32_t behind(std::uint32_t remainder, char digit) const {
    return (remainder * 10 + static_cast<std::uint32_t>(digit - '0')) % modulus_;
  }
  // The bounds of as many digits.
  BoundRange bounds_of(const WholeDigits& whole) const;
  // Of a number that ends with these digits.
  std::size_t place_of(const WholeDigits& whole) const;
  bool accepts(const State& state) const;
  // kNoNumber at first.
  std::int32_t& number_of_state(const State& state);
  void edge(char byte, State to);
  void add_edges(const State& state);
  NextWhole next_whole(const WholeDigits& before, char digit);
  NextWholes next_wholes(std::uint32_t digits);
  void add_whole(NextWhole next, char digit, std::uint32_t remainder);
  void add_first_digits(bool negative);
  NextFraction next_fraction(FractionDigits fraction);
  NextFractions next_fractions(std::uint32_t digits);
  void add_fraction(char byte, const NextFraction& next, std::uint32_t remainder);
  void add_fraction_digits(std::uint32_t digits, std::uint32_t remainder);
  template <typename Digits>
  static std::uint32_t number_of(Digits digits, std::map<Digits, std::uint32_t>& numbers,
                                 std::vector<Digits>& all) {
    const auto [place, fresh] = numbers.try_emplace(digits, static_cast<std::uint32_t>(all.size()));
    if (fresh) all.push_back(std::move(digits));
    return place->second;
  }

  const NumberValues& values_;
  std::array<Magnitudes, 2> sides_;
  GrammarBudget& budget_;
  std::uint32_t modulus_ = 1;
  // The remainder by this tells that by modulus_ of everything that a further digit makes: of ten
  // times as much, a factor that 10 has as well is no longer seen.
  std::uint32_t step_ = 1;
  std::uint32_t most_places_ = 0;  // from which on all values are alike
  DfaBuilder builder_;
  std::map<WholeDigits, std::uint32_t> whole_numbers_;
  std::vector<WholeDigits> wholes_;
  std::vector<std::optional<NextWholes>> next_wholes_;  // by number of wholes_, once asked for
  std::map<FractionDigits, std::uint32_t> fraction_numbers_;
  std::vector<FractionDigits> fractions_;
  std::vector<std::optional<NextFractions>> next_fractions_;  // by number of fractions_
  static constexpr std::int32_t kNoNumber = -1;
  // Numbers of states by what they are: a table, where it is small.
  std::vector<std::vector<std::int32_t>> table_;
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
  std::vector<State> states_;
};

Status NumberSpeller::find_modulus() {
  const auto take = [this](const NumberPattern& pattern) -> Status {
    QUIRE_ASSIGN_OR_RETURN(modulus_, pattern.modulus(modulus_));
    most_places_ = std::max(most_places_, static_cast<std::uint32_t>(pattern.num_places()));
    return {};
  };
  QUIRE_RETURN_IF_ERROR(take(values_.below));
  for (const NumberValues::Bound& bound : values_.bounds) QUIRE_RETURN_IF_ERROR(take(bound.above));
  step_ = modulus_ / std::gcd(modulus_, 10U);
  return {};
}

BoundRange NumberSpeller::bounds_of(const WholeDigits& whole) const {
  if (!whole.by_count.empty()) return whole.by_count.front();
  const auto end = static_cast<std::uint32_t>(side(whole.negative).num_bounds());
  return {end, end};
}

std::size_t NumberSpeller::place_of(const WholeDigits& whole) const {
  const BoundRange bounds = bounds_of(whole);
  return bounds.place(bounds.first < bounds.last &&
                      side(whole.negative).bound(bounds.first).fraction.empty());
}

bool NumberSpeller::accepts(const State& state) const {
  if (state.phase == Phase::kWhole) {
    const WholeDigits& whole = wholes_[state.digits];
    const NumberWriting writing = side(whole.negative).writing(place_of(whole), 0, state.remainder);
    return (writing & kWithoutPoint) != 0;
  }
  if (state.phase != Phase::kFraction) return false;
  const FractionDigits& fraction = fractions_[state.digits];
  if (fraction.count == 0) return false;
  const Magnitudes& magnitudes = side(fraction.negative);
  const BoundRange& bounds = fraction.bounds;
  const bool is_bound = bounds.first < bounds.last &&
                        magnitudes.bound(bounds.first).fraction.size() <= fraction.count;
  const NumberWriting writing =
      magnitudes.writing(bounds.place(is_bound), fraction.needed, state.remainder);
  return (writing & kWithPoint) != 0;
}

std::int32_t& NumberSpeller::number_of_state(const State& state) {
  constexpr std::size_t kMostInTable = 1 << 10;  // of rows and of remainders
  constexpr int kPhaseBits = 2;
  const std::size_t row =
      std::size_t{state.digits} << kPhaseBits | static_cast<std::size_t>(state.phase);
  if (modulus_ <= kMostInTable && row < kMostInTable) {
    if (table_.size() <= row) table_.resize(row + 1);
    if (table_[row].empty()) table_[row].assign(modulus_, kNoNumber);
    return table_[row][state.remainder];
  }
  const std::uint64_t key = std::uint64_t{row} * modulus_ + state.remainder;
  return numbers_.try_emplace(key, kNoNumber).first->second;
}

void NumberSpeller::edge(char byte, State to) {
  std::int32_t& number = number_of_state(to);
  if (number == kNoNumber) {
    number = static_cast<std::int32_t>(states_.size());
    states_.push_back(to);
  }
  const auto column = static_cast<std::uint32_t>(static_cast<unsigned char>(byte));
  builder_.add_edge(column, column, number);
}

NumberSpeller::NextWhole NumberSpeller::next_whole(const WholeDigits& before, char digit) {
  const Magnitudes& magnitudes = side(before.negative);
  WholeDigits whole{before.negative, before.count + 1, {}};
  for (std::size_t i = 1; i < before.by_count.size(); ++i) {
    whole.by_count.push_back(narrow(before.by_count[i], digit, [&](std::uint32_t bound) {
      return magnitudes.bound(bound).whole[before.count];
    }));
  }
  const std::size_t place = place_of(whole);
  if (!magnitudes.is_open_from(place)) return {};
  const bool divided = modulus_ > 1 && magnitudes.is_divided_from(place);
  if (whole.count > (divided ? NumberSet::kMaxWholeDigitsDivided : NumberSet::kMaxWholeDigits)) {
    return {};
  }
  return {number_of(std::move(whole), whole_numbers_, wholes_), divided};
}

NumberSpeller::NextWholes NumberSpeller::next_wholes(std::uint32_t digits) {
  if (next_wholes_.size() <= digits) next_wholes_.resize(wholes_.size());
  if (next_wholes_[digits]) return *next_wholes_[digits];
  const WholeDigits before = wholes_[digits];
  // Where no bound goes on from here, one digit is as another.
  const bool alike =
      std::all_of(before.by_count.begin(), before.by_count.end(), [&](const BoundRange& bounds) {
        return &bounds == before.by_count.data() || bounds.first == bounds.last;
      });
  NextWholes nexts;
  for (std::size_t i = 0; i < nexts.size(); ++i) {
    nexts[i] = alike && i > 0 ? nexts[0] : next_whole(before, static_cast<char>('0' + i));
  }
  next_wholes_[digits] = nexts;
  return nexts;
}

void NumberSpeller::add_whole(NextWhole next, char digit, std::uint32_t remainder) {
  if (next.digits == NextWhole::kNone) return;
  std::uint32_t rest = 0;
  if (next.divided) {
    rest = behind(remainder, digit);
    const WholeDigits& whole = wholes_[next.digits];
    const BoundRange bounds = bounds_of(whole);
    if (bounds.first == bounds.last) {
      rest = side(whole.negative).remainder_of(bounds.first_place(), 0, rest, step_);
    }
  }
  edge(digit, {Phase::kWhole, next.digits, rest});
}

// Of either sign: a lone 0, or digits of which the first is another.
void NumberSpeller::add_first_digits(bool negative) {
  const Magnitudes& magnitudes = side(negative);
  WholeDigits none{negative, 0, {{0, magnitudes.first_of_size(1)}}};
  edge('0', {Phase::kWhole, number_of(none, whole_numbers_, wholes_), 0});
  const std::size_t most = magnitudes.bound(magnitudes.num_bounds() - 1).whole.size();
  for (std::size_t size = 1; size <= most; ++size) {
    none.by_count.push_back({magnitudes.first_of_size(size), magnitudes.first_of_size(size + 1)});
  }
  for (char digit = '1'; digit <= '9'; ++digit) add_whole(next_whole(none, digit), digit, 0);
}

NumberSpeller::NextFraction NumberSpeller::next_fraction(FractionDigits fraction) {
  const Magnitudes& magnitudes = side(fraction.negative);
  const std::size_t first = fraction.bounds.first_place();
  const std::size_t last = fraction.bounds.last_place();
  if (!magnitudes.is_open(first, last, fraction.needed)) return {};
  NextFraction next;
  next.divided = magnitudes.is_divided(first, last);
  if (!next.divided) fraction.needed = 0;
  if (first == last) {
    next.place = first;
    if (magnitudes.reaches(first, fraction.needed + 1)) next.step = step_;
  }
  next.digits = number_of(fraction, fraction_numbers_, fractions_);
  return next;
}

NumberSpeller::NextFractions NumberSpeller::next_fractions(std::uint32_t digits) {
  if (next_fractions_.size() <= digits) next_fractions_.resize(fractions_.size());
  if (next_fractions_[digits]) return *next_fractions_[digits];
  const FractionDigits before = fractions_[digits];
  const auto digit_of = [&](std::uint32_t bound) {
    const std::string& its_digits = side(before.negative).bound(bound).fraction;
    return before.count < its_digits.size() ? its_digits[before.count] : '0';
  };
  // Where no bound goes on from here, all digits but 0 are alike.
  const bool alike = before.bounds.first == before.bounds.last;
  NextFractions nexts;
  for (std::size_t i = 0; i < nexts.size(); ++i) {
    if (alike && i > 1) {
      nexts[i] = nexts[1];
      continue;
    }
    FractionDigits fraction = before;
    ++fraction.count;
    fraction.bounds = narrow(before.bounds, static_cast<char>('0' + i), digit_of);
    if (i > 0) fraction.needed = std::min(fraction.count, most_places_);
    nexts[i] = next_fraction(fraction);
  }
  next_fractions_[digits] = nexts;
  return nexts;
}

// A state behind the point, if a number goes on so.
void NumberSpeller::add_fraction(char byte, const NextFraction& next, std::uint32_t remainder) {
  if (next.digits == NextFraction::kNone) return;
  if (!next.divided) remainder = 0;
  if (next.place) {
    const FractionDigits& fraction = fractions_[next.digits];
    remainder =
        side(fraction.negative).remainder_of(*next.place, fraction.needed, remainder, next.step);
  }
  edge(byte, {Phase::kFraction, next.digits, remainder});
}

void NumberSpeller::add_fraction_digits(std::uint32_t digits, std::uint32_t remainder) {
  const FractionDigits before = fractions_[digits];
  if (before.count == NumberSet::kMaxFractionDigits) return;
  const NextFractions nexts = next_fractions(digits);
  add_fraction('0', nexts[0], remainder);
  const std::uint32_t needed = std::min(before.count + 1, most_places_);
  for (std::uint32_t i = before.needed + 1; i < needed; ++i) remainder = behind(remainder, '0');
  for (std::size_t i = 1; i < nexts.size(); ++i) {
    const char digit = static_cast<char>('0' + i);
    add_fraction(digit, nexts[i], needed < most_places_ ? behind(remainder, digit) : 0);
  }
}

// In the order of the bytes: '-', '.', digits.
void NumberSpeller::add_edges(const State& state) {
  switch (state.phase) {
    case Phase::kStart:
      edge('-', {Phase::kNegative, 0, 0});
      add_first_digits(false);
      return;
    case Phase::kNegative:
      add_first_digits(true);
      return;
    case Phase::kWhole: {
      const WholeDigits& whole = wholes_[state.digits];
      add_fraction('.', next_fraction({whole.negative, 0, 0, bounds_of(whole)}), state.remainder);
      if (whole.count == 0) return;
      const NextWholes nexts = next_wholes(state.digits);
      for (std::size_t i = 0; i < nexts.size(); ++i) {
        add_whole(nexts[i], static_cast<char>('0' + i), state.remainder);
      }
      return;
    }
    case Phase::kFraction:
      add_fraction_digits(state.digits, state.remainder);
      return;
  }
}

Result<Dfa> NumberSpeller::run() {
  QUIRE_RETURN_IF_ERROR(find_modulus());
  states_.emplace_back();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State state = states_[i];
    builder_.add_state(accepts(state));
    add_edges(state);
    QUIRE_RETURN_IF_ERROR(budget_.tick(16));
    QUIRE_RETURN_IF_ERROR(budget_.check_size(states_.size(), builder_.num_edges()));
  }
  return builder_.finish(budget_);
}

}  // namespace

Result<Dfa> decimal_spellings(const NumberValues& values, GrammarBudget& budget) {
  return NumberSpeller(values, budget).run();
}

}  // namespace quire
