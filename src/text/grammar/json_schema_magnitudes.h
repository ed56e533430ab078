// Numbers of one sign in the order of their magnitudes, for what writes them digit by digit.
// Internal to JSON Schema.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/grammar/json_schema_decimal.h"
#include "text/grammar/json_schema_number_values.h"

namespace quire {

// The values of one sign by magnitude. Place 2i is bound i, of which the first is 0, and 2i + 1
// what lies between it and the next.
class Magnitudes {
 public:
  // Borrows `values`.
  Magnitudes(const NumberValues& values, bool negative);

  bool negative() const { return negative_; }
  std::size_t num_bounds() const { return bounds_.size(); }
  const Decimal& bound(std::size_t i) const { return *bounds_[i]; }
  // The first bound with so many digits before its point, or more.
  std::uint32_t first_of_size(std::size_t digits) const {
    const auto found = std::ranges::partition_point(
        bounds_, [digits](const Decimal* bound) { return bound->whole.size() < digits; });
    return static_cast<std::uint32_t>(found - bounds_.begin());
  }
  NumberWriting writing(std::size_t place, std::size_t needed, std::uint32_t remainder) const {
    if (place % 2 == 0) return there_[place / 2];
    return above_[place / 2]->of(needed, remainder, negative_);
  }
  // As far as it matters for values of `place` that need `needed` digits behind the point, where of
  // what comes behind further digits only the remainder by `step` matters.
  std::uint32_t remainder_of(std::size_t place, std::size_t needed, std::uint32_t remainder,
                             std::uint32_t step) const {
    return above_[place / 2]->first_like(needed, remainder, step, negative_);
  }
  // Whether values of `place` may need `needed` digits behind the point or more.
  bool reaches(std::size_t place, std::size_t needed) const {
    return above_[place / 2]->reaches(needed);
  }
  // Whether a value of some place from `first` to `last` may be written, if it needs `needed`
  // digits behind the point or more; and whether its digits matter.
  bool is_open(std::size_t first, std::size_t last, std::size_t needed) const;
  bool is_divided(std::size_t first, std::size_t last) const;
  // The same of a place and all beyond.
  bool is_open_from(std::size_t place) const { return open_from_[place]; }
  bool is_divided_from(std::size_t place) const { return divided_from_[place]; }
  std::size_t last_place() const { return 2 * bounds_.size() - 1; }

 private:
  void add(const Decimal& at, NumberWriting there, const NumberPattern* above) {
    bounds_.push_back(&at);
    there_.push_back(there);
    above_.push_back(above);
  }
  void find_what_is_beyond();

  bool negative_;
  std::vector<const Decimal*> bounds_;
  std::vector<NumberWriting> there_;
  std::vector<const NumberPattern*> above_;
  std::vector<bool> open_from_, divided_from_;
};

}  // namespace quire
