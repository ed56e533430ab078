// Checks that numbers are finite, while they are packed.
#pragma once

#include <cstdint>

#include "kernels/transpose.h"
#include "quant/encoding.h"

namespace quire {

// Finds numbers that are not finite: their exponents are all ones, so that adding one to an
// exponent that stands alone carries into the place of the sign.
class FiniteCheck {
 public:
  explicit FiniteCheck(Encoding encoding) {
    switch (encoding) {
      case Encoding::kF32:
        set(0x7F800000U, 0x00800000U);
        break;
      case Encoding::kBF16:
        set(0x7F807F80U, 0x00800080U);
        break;
      default:  // halves, as weights or as scales
        set(0x7C007C00U, 0x04000400U);
    }
  }
  void see(Words words) { carries_ |= (words & exponents_) + step_; }
  void see(std::uint32_t word) { see(Words{word}); }
  bool all_finite() const {
    const Words signs = carries_ & 0x80008000U;
    return (signs[0] | signs[1] | signs[2] | signs[3]) == 0;
  }

 private:
  void set(std::uint32_t exponents, std::uint32_t step) {
    exponents_ = Words{} + exponents;
    step_ = Words{} + step;
  }

  Words exponents_ = {};
  Words step_ = {};
  Words carries_ = {};
};

}  // namespace quire
