#include "quant/grouped_tensor.h"

#include <cstring>

#include "quant/hqq_row.h"
#include "quant/row_factor.h"
#include "quant/zero_groups.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

// Codes of eight bits become signed by subtracting this.
constexpr int kSignedZero = 128;

float scale_at(const GroupedTensor& tensor, std::int64_t row, std::int64_t span) {
  const std::int64_t at =
      row / tensor.rows_per_scale * tensor.scale_row_stride + span * tensor.scale_span_stride;
  float scale = 0;
  decode_row(tensor.scale_encoding,
             tensor.scales + at * encoding_traits(tensor.scale_encoding).block_bytes, 1, &scale);
  return scale * tensor.scale_unit;
}

// As an unsigned code has it.
int zero_at(const GroupedTensor& tensor, std::int64_t row, std::int64_t span) {
  if (!tensor.has_zeros) return tensor.zero;
  const int zero = tensor.zeros_by_span ? tensor.zeros.get(span, row) : tensor.zeros.get(row, span);
  return tensor.zero + (tensor.is_signed ? static_cast<std::int8_t>(zero) : zero);
}

// The 32 codes from place `first` of a row on.
void read_codes(const GroupedTensor& tensor, std::int64_t row, std::int64_t first, int* codes) {
  const PackedInts& packed = tensor.codes;
  if (!tensor.order.empty()) {
    for (int i = 0; i < kGroupSize; ++i) {
      const std::int64_t input = tensor.order[static_cast<std::size_t>(first + i)];
      codes[i] = tensor.codes_by_input ? packed.get(input, row) : packed.get(row, input);
    }
  } else if (tensor.codes_by_input && packed.along == PackedAlong::kFirst && packed.bits == 4) {
    for (int w = 0; w < kGroupSize / 8; ++w) {  // what most files have
      const std::uint32_t word = packed.word((first / 8 + w) * packed.stride + row);
      for (int i = 0; i < 8; ++i) codes[w * 8 + i] = static_cast<int>(word >> (4 * i) & 15U);
    }
  } else {
    for (int i = 0; i < kGroupSize; ++i) {
      codes[i] = tensor.codes_by_input ? packed.get(first + i, row) : packed.get(row, first + i);
    }
  }
}

void put_half(std::uint16_t half, std::uint8_t* out) { std::memcpy(out, &half, sizeof(half)); }

Status encode_zero_groups(const GroupedTensor& tensor, Encoding encoding, std::int64_t row,
                          std::uint8_t* out) {
  const ZeroGroups form = zero_groups(encoding);
  const auto row_scale = [&](std::int64_t span) { return scale_at(tensor, row, span); };
  QUIRE_ASSIGN_OR_RETURN(const float factor, row_factor(row, tensor.cols / tensor.span, row_scale));
  std::memcpy(out, &factor, sizeof(factor));
  const int signed_zero = form.code_bits == 8 && !tensor.is_signed ? kSignedZero : 0;
  for (std::int64_t g = 0; g < tensor.cols / kGroupSize; ++g) {
    const std::int64_t span = g * kGroupSize / tensor.span;
    put_half(float_to_f16(scale_at(tensor, row, span) / factor), out + form.span_offset(g));
    const int zero = zero_at(tensor, row, span) - signed_zero;
    std::uint8_t* zero_to = out + form.zero_offset(g);
    if (form.code_bits == 4) {
      *zero_to = static_cast<std::uint8_t>(zero);
    } else {
      put_half(float_to_f16(static_cast<float>(zero)), zero_to);
    }
    int codes[kGroupSize];
    read_codes(tensor, row, g * kGroupSize, codes);
    std::uint8_t* to = out + form.codes_offset(g);
    for (int i = 0; i < kHalfGroupSize && form.code_bits == 4; ++i) {
      to[i] = static_cast<std::uint8_t>(codes[i] | codes[i + kHalfGroupSize] << 4);
    }
    for (int i = 0; i < kGroupSize && form.code_bits == 8; ++i) {
      to[i] = static_cast<std::uint8_t>(codes[i] - signed_zero);
    }
  }
  return {};
}

// Of 2 and 3 bits.
Status encode_narrow_codes(const GroupedTensor& tensor, const HqqForm& form, std::int64_t row,
                           std::uint8_t* out) {
  return write_hqq_row(
      form, row, tensor.cols, tensor.span,
      [&](std::int64_t span) { return scale_at(tensor, row, span); },
      [&](std::int64_t span) { return static_cast<float>(zero_at(tensor, row, span)); },
      [&](std::int64_t input, int* codes) { read_codes(tensor, row, input, codes); }, out);
}

void encode_int8_row(const GroupedTensor& tensor, std::int64_t row, std::uint8_t* out) {
  const float scale = scale_at(tensor, row, 0);
  std::memcpy(out, &scale, sizeof(scale));
  out += sizeof(scale);
  const int zero = tensor.is_signed ? 0 : kSignedZero;
  for (std::int64_t k = 0; k < tensor.cols; k += kGroupSize, out += kGroupSize) {
    int codes[kGroupSize];
    read_codes(tensor, row, k, codes);
    for (int i = 0; i < kGroupSize; ++i) out[i] = static_cast<std::uint8_t>(codes[i] - zero);
  }
}

void encode_floats(const GroupedTensor& tensor, std::int64_t row, std::uint8_t* out) {
  const std::uint8_t* codes = tensor.codes.data + row * tensor.codes.stride;
  for (std::int64_t k = 0; k < tensor.cols; k += tensor.span) {
    const float scale = scale_at(tensor, row, k / tensor.span);
    std::memcpy(out, &scale, sizeof(scale));
    std::memcpy(out + sizeof(scale), codes + k, static_cast<std::size_t>(tensor.span));
    out += sizeof(scale) + static_cast<std::size_t>(tensor.span);
  }
}

}  // namespace

Encoding rows_encoding(const GroupedTensor& tensor) {
  if (tensor.is_float) {
    return tensor.span < tensor.cols ? Encoding::kF8Block128 : Encoding::kF8Row;
  }
  if (tensor.codes.bits < 4) {
    return hqq_encoding(tensor.codes.bits, tensor.span, tensor.cols, /*whole_zeros=*/true);
  }
  const int bits = tensor.codes.bits == 4 ? 4 : 8;
  const bool symmetric = !tensor.has_zeros && tensor.zero == (tensor.is_signed ? 0 : kSignedZero);
  if (bits == 8 && symmetric && tensor.span >= tensor.cols) return Encoding::kInt8Row;
  return zero_groups_encoding(bits, tensor.span, tensor.cols, !tensor.has_zeros);
}

Status encode_rows(const GroupedTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out) {
  const Encoding encoding = rows_encoding(tensor);
  const auto row_bytes = encoded_row_bytes(encoding, tensor.cols).value_or(0);
  for (std::int64_t row = first; row < first + count; ++row, out += row_bytes) {
    if (tensor.is_float) {
      encode_floats(tensor, row, out);
    } else if (encoding == Encoding::kInt8Row) {
      encode_int8_row(tensor, row, out);
    } else if (is_hqq(encoding)) {
      QUIRE_RETURN_IF_ERROR(encode_narrow_codes(tensor, hqq_form(encoding), row, out));
    } else {
      QUIRE_RETURN_IF_ERROR(encode_zero_groups(tensor, encoding, row, out));
    }
  }
  return {};
}

}  // namespace quire
