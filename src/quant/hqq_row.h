// A row of quant/hqq_block.h, written from what a file has.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/status.h"
#include "quant/encoding.h"
#include "quant/hqq_block.h"
#include "quant/row_factor.h"
#include "tensor/float_convert.h"

namespace quire {

inline Status write_hqq_zero(float zero, std::int64_t row, std::uint8_t* out) {
  const std::uint16_t half = float_to_f16(zero);
  std::memcpy(out, &half, sizeof(half));
  if (!std::isfinite(zero)) {
    return Status::bad_model(fmt::format("output {} has a zero point that is not finite", row),
                             "fetch the file again");
  }
  if (f16_to_float(half) == zero) return {};
  return Status::unimplemented(
      fmt::format("output {} has a zero point that half precision does not hold", row),
      "use a checkpoint with a compute_dtype of float16");
}

// Row `row` of `cols` inputs, `span` of which share a scale and a zero point. scale_at(span) and
// zero_at(span) are these, the latter 0 to 8 where the form has whole zeros; read_codes(input,
// codes) gives the 32 codes from an input on. kBadModel for numbers that are not finite,
// kUnimplemented for those that half precision does not hold.
template <typename ScaleAt, typename ZeroAt, typename ReadCodes>
Status write_hqq_row(const HqqForm& form, std::int64_t row, std::int64_t cols, std::int64_t span,
                     const ScaleAt& scale_at, const ZeroAt& zero_at, const ReadCodes& read_codes,
                     std::uint8_t* out) {
  QUIRE_ASSIGN_OR_RETURN(const float factor, row_factor(row, cols / span, scale_at));
  const float divisor = 1.0F / factor;
  std::memcpy(out, &divisor, sizeof(divisor));
  out += sizeof(divisor);
  for (std::int64_t k = 0; k < cols; k += form.block_inputs()) {
    unsigned int whole_zeros = 0;
    for (std::int64_t s = 0; s < form.spans; ++s) {
      const std::int64_t of = (k + s * form.span) / span;
      const std::uint16_t scale = float_to_f16(scale_at(of) / factor);
      std::memcpy(out + 2 * s, &scale, sizeof(scale));
      if (form.whole_zeros) {
        whole_zeros |= static_cast<unsigned int>(zero_at(of)) << (4 * s);
      } else {
        QUIRE_RETURN_IF_ERROR(write_hqq_zero(zero_at(of), row, out + 2));
      }
    }
    if (form.whole_zeros) out[2 * form.spans] = static_cast<std::uint8_t>(whole_zeros);
    out += form.header_bytes();
    for (std::int64_t i = 0; i < form.block_inputs(); i += kGroupSize, out += form.group_bytes()) {
      int codes[kGroupSize];
      read_codes(k + i, codes);
      write_hqq_codes(codes, form.bits, out);
    }
  }
  return {};
}

}  // namespace quire
