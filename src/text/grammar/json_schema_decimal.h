// A schema's numbers as decimal digits, and JSON's notion of equal values.
#pragma once

#include <string>

#include "base/json.h"

namespace quire {

// A number in decimal digits, exactly.
struct Decimal {
  bool negative = false;
  std::string whole;     // without leading zeros; empty: 0
  std::string fraction;  // without trailing zeros

  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

// Of a number beyond 64 bits, and of one with a fraction, the shortest digits that give the double.
Decimal decimal_of(const json::value& number);

// As JSON Schema compares: 1 and 1.0 are equal, true and 1 are not, members have no order.
bool json_equal(const json::value& a, const json::value& b);

}  // namespace quire
