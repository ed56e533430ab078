#include "text/grammar/json_schema_magnitudes.h"

#include <iterator>

namespace quire {

Magnitudes::Magnitudes(const NumberValues& values, bool negative) : negative_(negative) {
  static const Decimal zero;
  const auto by_value = [](const NumberValues::Bound& bound, const Decimal& at) {
    return is_less(bound.at, at);
  };
  auto first = std::lower_bound(values.bounds.begin(), values.bounds.end(), zero, by_value);
  const auto begin = values.bounds.begin();
  const auto pattern_before = [&](auto bound) {
    return bound == begin ? &values.below : &std::prev(bound)->above;
  };
  const bool has_zero = first != values.bounds.end() && first->at.is_zero();
  const NumberPattern* around = pattern_before(first);
  add(zero, has_zero ? first->there : around->of(zero),
      negative || !has_zero ? around : &first->above);
  if (negative) {
    while (first != begin) {
      --first;
      add(first->at, first->there, pattern_before(first));
    }
  } else {
    for (first += has_zero ? 1 : 0; first != values.bounds.end(); ++first) {
      add(first->at, first->there, &first->above);
    }
  }
  find_what_is_beyond();
}

bool Magnitudes::is_open(std::size_t first, std::size_t last, std::size_t needed) const {
  for (std::size_t place = first; place <= last; ++place) {
    if (place % 2 == 0 ? there_[place / 2] != kNotWritten : above_[place / 2]->reaches(needed)) {
      return true;
    }
  }
  return false;
}

bool Magnitudes::is_divided(std::size_t first, std::size_t last) const {
  for (std::size_t place = first | 1; place <= last; place += 2) {
    if (!above_[place / 2]->is_constant()) return true;
  }
  return false;
}

void Magnitudes::find_what_is_beyond() {
  open_from_.assign(2 * bounds_.size(), false);
  divided_from_ = open_from_;
  bool open = false;
  bool divided = false;
  for (std::size_t place = open_from_.size(); place-- > 0;) {
    open_from_[place] = open = open || is_open(place, place, 0);
    divided_from_[place] = divided = divided || is_divided(place, place);
  }
}

}  // namespace quire
