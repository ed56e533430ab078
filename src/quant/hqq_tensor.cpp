#include "quant/hqq_tensor.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "quant/hqq_block.h"
#include "quant/row_factor.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

float number_at(const HqqTensor& tensor, const std::uint8_t* numbers, std::int64_t group) {
  float number = 0;
  decode_row(tensor.numbers, numbers + group * encoding_traits(tensor.numbers).block_bytes, 1,
             &number);
  return number;
}

// The codes of 32 inputs of a group, from `first` of it on.
void read_group_codes(const HqqTensor& tensor, std::int64_t group, std::int64_t first, int* codes) {
  const std::int64_t packed_rows = tensor.packed_rows();
  const auto place = static_cast<int>(tensor.codes_together() - 1 - group / packed_rows);
  const std::int64_t at = group % packed_rows * tensor.span + first;
  const unsigned int mask = (1U << tensor.bits) - 1;
  for (int i = 0; i < kGroupSize; ++i) {
    std::uint32_t packed = 0;
    if (tensor.bits == 3) {
      std::memcpy(&packed, tensor.codes + 4 * (at + i), sizeof(packed));
    } else {
      packed = tensor.codes[at + i];
    }
    codes[i] = static_cast<int>(packed >> (tensor.bits * place) & mask);
  }
}

Status write_zero(float zero, std::int64_t row, std::uint8_t* out) {
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

Status encode_hqq_row(const HqqTensor& tensor, const HqqForm& form, std::int64_t row,
                      std::uint8_t* out) {
  const std::int64_t spans = tensor.cols / tensor.span;
  const auto scale_at = [&](std::int64_t span) {
    return number_at(tensor, tensor.scales, row * spans + span);
  };
  QUIRE_ASSIGN_OR_RETURN(const float factor, row_factor(row, spans, scale_at));
  const float divisor = 1.0F / factor;
  std::memcpy(out, &divisor, sizeof(divisor));
  out += sizeof(divisor);
  for (std::int64_t k = 0; k < tensor.cols; k += form.span) {
    const std::int64_t span = k / tensor.span;
    const std::int64_t group = row * spans + span;
    const std::uint16_t scale = float_to_f16(scale_at(span) / factor);
    std::memcpy(out, &scale, sizeof(scale));
    QUIRE_RETURN_IF_ERROR(write_zero(number_at(tensor, tensor.zeros, group), row, out + 2));
    out += kHqqHeaderBytes;
    for (std::int64_t i = 0; i < form.span; i += kGroupSize, out += form.group_bytes()) {
      int codes[kGroupSize];
      read_group_codes(tensor, group, k % tensor.span + i, codes);
      write_hqq_codes(codes, form.bits, out);
    }
  }
  return {};
}

}  // namespace

Encoding rows_encoding(const HqqTensor& tensor) { return hqq_encoding(tensor.bits, tensor.span); }

Status encode_rows(const HqqTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out) {
  const Encoding encoding = rows_encoding(tensor);
  const auto row_bytes = encoded_row_bytes(encoding, tensor.cols).value_or(0);
  for (std::int64_t row = first; row < first + count; ++row, out += row_bytes) {
    QUIRE_RETURN_IF_ERROR(encode_hqq_row(tensor, hqq_form(encoding), row, out));
  }
  return {};
}

}  // namespace quire
