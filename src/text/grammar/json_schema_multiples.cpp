// Multiples of a number, by the remainder of the digits read so far.
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "text/grammar/dfa_builder.h"
#include "text/grammar/json_schema_sets.h"

namespace quire {
namespace {

enum class MultiplePhase : std::uint8_t {
  kStart,
  kSigned,
  kZero,
  kWhole,
  kPoint,
  kFraction,
  kZeros
};

struct MultipleState {
  MultiplePhase phase = MultiplePhase::kStart;
  std::uint32_t remainder = 0;
  std::uint32_t digits = 0;  // kWhole: before the point; kFraction, kZeros: behind it

  auto operator<=>(const MultipleState&) const = default;
};

// Spellings of multiples of divisor / 10^places.
class MultiplesBuilder {
 public:
  MultiplesBuilder(std::uint32_t divisor, std::uint32_t places, std::uint32_t max_whole)
      : divisor_(divisor), places_(places), max_whole_(max_whole) {}

  Result<Dfa> build(GrammarBudget& budget);

 private:
  bool accepts(MultipleState state) const;
  void add_edges(MultipleState state);
  void edge(char digit, MultipleState to);
  std::uint32_t then(std::uint32_t remainder, std::uint32_t digit) const {
    return (remainder * 10 + digit) % divisor_;
  }

  std::uint32_t divisor_;
  std::uint32_t places_;
  std::uint32_t max_whole_;
  DfaBuilder builder_;
  std::map<MultipleState, std::int32_t> numbers_;
  std::vector<MultipleState> open_;
};

bool MultiplesBuilder::accepts(MultipleState state) const {
  if (state.phase == MultiplePhase::kZeros || state.phase == MultiplePhase::kZero) return true;
  if (state.phase != MultiplePhase::kWhole && state.phase != MultiplePhase::kFraction) return false;
  const std::uint32_t behind = state.phase == MultiplePhase::kWhole ? 0 : state.digits;
  std::uint32_t remainder = state.remainder;
  for (std::uint32_t i = behind; i < places_ && remainder != 0; ++i) remainder = then(remainder, 0);
  return remainder == 0;
}

void MultiplesBuilder::edge(char digit, MultipleState to) {
  const auto [place, fresh] = numbers_.try_emplace(to, static_cast<std::int32_t>(numbers_.size()));
  if (fresh) open_.push_back(to);
  const auto column = static_cast<std::uint32_t>(digit);
  builder_.add_edge(column, column, place->second);
}

// In the order of the bytes: '-', '.', digits.
void MultiplesBuilder::add_edges(MultipleState state) {
  using Phase = MultiplePhase;
  const auto digit = [](std::uint32_t value) { return static_cast<char>('0' + value); };
  switch (state.phase) {
    case Phase::kStart:
      edge('-', {Phase::kSigned, 0, 0});
      [[fallthrough]];
    case Phase::kSigned:
      edge('0', {Phase::kZero, 0, 0});
      for (std::uint32_t d = 1; d < 10; ++d) edge(digit(d), {Phase::kWhole, d % divisor_, 1});
      return;
    case Phase::kZero:
      edge('.', {Phase::kPoint, 0, 0});
      return;
    case Phase::kWhole:
      edge('.', {Phase::kPoint, state.remainder, 0});
      if (state.digits == max_whole_) return;
      for (std::uint32_t d = 0; d < 10; ++d) {
        edge(digit(d), {Phase::kWhole, then(state.remainder, d), state.digits + 1});
      }
      return;
    case Phase::kPoint:
    case Phase::kFraction:
      if (state.digits < places_) {
        for (std::uint32_t d = 0; d < 10; ++d) {
          edge(digit(d), {Phase::kFraction, then(state.remainder, d), state.digits + 1});
        }
      } else if (state.remainder == 0) {
        edge('0', {Phase::kZeros, 0, state.digits + 1});
      }
      return;
    case Phase::kZeros:
      if (state.digits < NumberSet::kMaxFractionDigits) {
        edge('0', {Phase::kZeros, 0, state.digits + 1});
      }
      return;
  }
}

Result<Dfa> MultiplesBuilder::build(GrammarBudget& budget) {
  numbers_.emplace(MultipleState(), 0);
  open_.emplace_back();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const MultipleState state = open_[i];
    builder_.add_state(accepts(state));
    add_edges(state);
    QUIRE_RETURN_IF_ERROR(budget.tick(16));
    QUIRE_RETURN_IF_ERROR(budget.check_size(open_.size(), builder_.num_edges()));
  }
  return builder_.finish(budget);
}

}  // namespace

Result<NumberSet> NumberSet::multiple_of(const Decimal& divisor, GrammarBudget& budget) {
  std::uint64_t digits = 0;
  for (const char c : divisor.whole + divisor.fraction) {
    digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
    if (digits > kMaxDivisor) {
      return Status::unimplemented(
          fmt::format("a divisor of more than {} (its point left out)", kMaxDivisor),
          "use a divisor with fewer digits");
    }
  }
  if (divisor.fraction.size() > kMaxFractionDigits) {
    return Status::unimplemented(
        fmt::format("a divisor of more than {} digits behind its point", kMaxFractionDigits),
        "use a divisor with fewer digits");
  }
  const auto places = static_cast<std::uint32_t>(divisor.fraction.size());
  MultiplesBuilder builder(static_cast<std::uint32_t>(digits), places,
                           digits > 1 ? kMaxWholeDigitsDivided : kMaxWholeDigits);
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, builder.build(budget));
  // Whether every integer is one.
  std::uint64_t one = 1 % digits;
  for (std::uint32_t i = 0; i < places; ++i) one = one * 10 % digits;
  return some(std::move(dfa), one == 0 ? Exponents::kIntegers : Exponents::kUnknown);
}

}  // namespace quire
