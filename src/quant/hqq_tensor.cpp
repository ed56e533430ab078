#include "quant/hqq_tensor.h"

#include <cstring>

#include "quant/hqq_row.h"

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

Status encode_hqq_row(const HqqTensor& tensor, const HqqForm& form, std::int64_t row,
                      std::uint8_t* out) {
  const std::int64_t first_group = row * (tensor.cols / tensor.span);
  return write_hqq_row(
      form, row, tensor.cols, tensor.span,
      [&](std::int64_t span) { return number_at(tensor, tensor.scales, first_group + span); },
      [&](std::int64_t span) { return number_at(tensor, tensor.zeros, first_group + span); },
      [&](std::int64_t input, int* codes) {
        read_group_codes(tensor, first_group + input / tensor.span, input % tensor.span, codes);
      },
      out);
}

}  // namespace

Encoding rows_encoding(const HqqTensor& tensor) {
  return hqq_encoding(tensor.bits, tensor.span, tensor.cols);
}

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
