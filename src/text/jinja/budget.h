// What one render may spend: steps, which stand for time, and bytes, which stand for memory. Every
// statement, expression and loop turn costs a step, and so does work inside a filter, method or
// operator for every so many bytes that it looks at; every byte that an operation makes of strings
// and containers costs a byte. Work is charged before it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace quire::jinja {

class Budget {
 public:
  Budget(std::uint64_t steps, std::uint64_t bytes) : steps_(steps), bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  Status step(std::uint64_t count = 1) {
    if (count > steps_) {
      steps_ = 0;
      return Status::resource_exhausted("the template runs for too many steps",
                                        "shorten the conversation or simplify the template");
    }
    steps_ -= count;
    return {};
  }
  // Reading at the speed of memory: comparing, searching, copying.
  Status scan(std::uint64_t count) { return step(count / kScannedPerStep); }
  // Looking at every character: changing case, escaping, splitting.
  Status characters(std::uint64_t count) { return step(count / kCharactersPerStep); }

  // Memory, kept or not. Never comes back, but for loans.
  Status bytes(std::uint64_t count) {
    if (count > bytes_) {
      bytes_ = 0;
      return Status::resource_exhausted("the template handles too much text",
                                        "shorten the conversation or simplify the template");
    }
    bytes_ -= count;
    return {};
  }

  // Memory that is certain to be freed: when the loan ends.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Loan& operator=(Loan&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Loan() {
      if (budget_ != nullptr) budget_->bytes_ += bytes_;
    }

   private:
    friend class Budget;
    Loan(Budget& budget, std::uint64_t bytes) : budget_(&budget), bytes_(bytes) {}

    Budget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };
  // The budget outlives the loan.
  Result<Loan> borrow(std::uint64_t count) {
    QUIRE_RETURN_IF_ERROR(bytes(count));
    return Loan(*this, count);
  }

 private:
  // A step is an expression: about a tenth of a microsecond.
  static constexpr std::uint64_t kScannedPerStep = 64;
  static constexpr std::uint64_t kCharactersPerStep = 4;

  std::uint64_t steps_;
  std::uint64_t bytes_;
};

}  // namespace quire::jinja
