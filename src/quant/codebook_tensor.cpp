#include "quant/codebook_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

namespace quire {
namespace {

float float_at(const std::uint8_t* floats, std::int64_t index) {
  float value = 0;
  std::memcpy(&value, floats + 4 * index, sizeof(value));
  return value;
}

constexpr std::int64_t kMaxSpan = 256;

std::int64_t span_of(const CodebookTensor& tensor) {
  return std::gcd(std::gcd(tensor.block, tensor.cols), kMaxSpan);
}

bool keeps_bytes(const CodebookTensor& tensor) {
  return tensor.nested && std::memcmp(tensor.map, kNestedScales, sizeof(kNestedScales)) == 0;
}

float scale_of(const CodebookTensor& tensor, std::int64_t block) {
  if (!tensor.nested) return float_at(tensor.scales, block);
  const float scale =
      float_at(tensor.map, tensor.scales[block]) * float_at(tensor.units, block / kMinNestedRun);
  return scale + tensor.offset;
}

// What stands before the spans of a nested row whose first weight is the `first`th of all.
void put_header(const CodebookTensor& tensor, std::int64_t first, std::uint8_t* out) {
  const std::int64_t span = span_of(tensor);
  const int shift = std::countr_zero(static_cast<std::uint64_t>(tensor.block / span));
  const std::int64_t run = kMinNestedRun << shift;
  const NestedPlace place = NestedPlace::of(first / span % run, shift);
  std::memcpy(out, &tensor.offset, 4);
  std::memcpy(out + 4, &place.bits, 4);
  const std::int64_t first_unit = first / span / run;
  const std::int64_t last = place.unit_of(tensor.cols / span - 1);
  for (std::int64_t i = 0; i < nested_units(tensor.cols); ++i) {
    const float unit = i <= last ? float_at(tensor.units, first_unit + i) : 0.0F;
    std::memcpy(out + 8 + 4 * i, &unit, 4);
  }
}

// Byte j of the file's has codes 2 j and 2 j + 1, the first on top.
int code_at(const std::uint8_t* codes, std::int64_t index) {
  return codes[index / 2] >> (index % 2 == 0 ? 4 : 0) & 15;
}

Status encode_row(const CodebookTensor& tensor, Encoding encoding, std::int64_t row,
                  std::uint8_t* out) {
  const CodebookGroups form = codebook_groups(encoding);
  const std::int64_t first = row * tensor.cols;
  if (form.nested) put_header(tensor, first, out);
  for (std::int64_t g = 0; g < tensor.cols / kGroupSize; ++g) {
    const std::int64_t at = first + g * kGroupSize;
    const std::int64_t block = at / tensor.block;
    std::uint8_t* span = out + form.span_offset(tensor.cols, g);
    const float scale = scale_of(tensor, block);
    if (!std::isfinite(scale)) {
      return Status::bad_model(fmt::format("output {} has a scale that is not finite", row),
                               "fetch the file again");
    }
    if (form.nested) {
      *span = tensor.scales[block];
    } else {
      std::memcpy(span, &scale, sizeof(scale));
    }
    std::uint8_t* to = out + form.codes_offset(tensor.cols, g);
    for (int i = 0; i < kHalfGroupSize; ++i) {
      to[i] = static_cast<std::uint8_t>(code_at(tensor.codes, at + i) |
                                        code_at(tensor.codes, at + i + kHalfGroupSize) << 4);
    }
  }
  return {};
}

}  // namespace

Encoding rows_encoding(const CodebookTensor& tensor) {
  return codebook_encoding(tensor.codebook, keeps_bytes(tensor), span_of(tensor));
}

Status encode_rows(const CodebookTensor& tensor, std::int64_t first, std::int64_t count,
                   std::uint8_t* out) {
  const Encoding encoding = rows_encoding(tensor);
  const auto row_bytes = encoded_row_bytes(encoding, tensor.cols).value_or(0);
  for (std::int64_t row = first; row < first + count; ++row, out += row_bytes) {
    QUIRE_RETURN_IF_ERROR(encode_row(tensor, encoding, row, out));
  }
  return {};
}

}  // namespace quire
