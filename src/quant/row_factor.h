// A factor for the scales of a row, for encodings that keep scales in half precision and, before
// them, a power of two.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "base/status.h"
#include "tensor/float_convert.h"

namespace quire {

// The power of two by which the `count` scales of output `row`, scale_at(i), are more than half
// precision holds of them: 1 for what is a half already. kBadModel for scales that are not finite,
// kUnimplemented for those that no factor makes halves.
template <typename ScaleAt>
Result<float> row_factor(std::int64_t row, std::int64_t count, const ScaleAt& scale_at) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = scale_at(i);
    if (!std::isfinite(scale)) {
      return Status::bad_model(fmt::format("output {} has a scale that is not finite", row),
                               "fetch the file again");
    }
    largest = std::max(largest, std::fabs(scale));
  }
  const auto fits = [&](float factor) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = scale_at(i) / factor;
      if (f16_to_float(float_to_f16(scale)) != scale) return false;
    }
    return true;
  };
  if (fits(1.0F)) return 1.0F;
  // The largest just below the end of half precision, so that the smallest lose nothing.
  const float factor = std::ldexp(1.0F, std::max(std::ilogb(largest) - 14, -120));
  if (fits(factor)) return factor;
  return Status::unimplemented(
      fmt::format("output {} has scales with more digits, or of more different sizes, than half "
                  "precision holds",
                  row),
      "use a checkpoint with scales of F16 or BF16");
}

}  // namespace quire
