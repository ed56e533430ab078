#include "quant/hqq_block.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "quant/super_block.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

// Codes of eight bits, and zero points, become signed by subtracting this.
constexpr int kHqqSignedZero = 128;

// In the order of the encodings.
constexpr HqqForm kHqqForms[] = {
    {2, 32},           {2, 64},           {2, 128},          {2, 256},         {3, 32},
    {3, 64},           {3, 128},          {4, 32},           {4, 64},          {4, 128},
    {4, 256},          {8, 32},           {8, 64},           {8, 128},         {2, 32, 2, true},
    {2, 64, 2, true},  {2, 128, 1, true}, {2, 256, 1, true}, {3, 32, 2, true}, {3, 64, 2, true},
    {3, 128, 1, true}, {3, 256, 1, true}};
static_assert(std::size(kHqqForms) == static_cast<std::size_t>(Encoding::kGptq3Span256) -
                                          static_cast<std::size_t>(Encoding::kHqq2Span32) + 1);

int read_hqq_code(const std::uint8_t* codes, int bits, int i) {
  if (bits == 4) return codes[i % kHalfGroupSize] >> (i / kHalfGroupSize * 4) & 15;
  const int bit = i * bits;
  unsigned int word = codes[bit / 8];
  if (bit % 8 + bits > 8) word |= static_cast<unsigned int>(codes[bit / 8 + 1]) << 8U;
  return static_cast<int>(word >> (bit % 8) & ((1U << bits) - 1));
}

}  // namespace

HqqForm hqq_form(Encoding encoding) {
  return kHqqForms[static_cast<int>(encoding) - static_cast<int>(Encoding::kHqq2Span32)];
}

Encoding hqq_encoding(int bits, std::int64_t span, std::int64_t cols, bool whole_zeros) {
  Encoding best = Encoding::kHqq2Span32;
  std::optional<std::uint64_t> best_bytes;
  for (Encoding encoding = Encoding::kHqq2Span32; is_hqq(encoding);
       encoding = static_cast<Encoding>(static_cast<int>(encoding) + 1)) {
    const HqqForm form = hqq_form(encoding);
    if (form.bits < bits || span % form.span != 0 || (form.whole_zeros && !whole_zeros)) continue;
    const std::optional<std::uint64_t> bytes = encoded_row_bytes(encoding, cols);
    if (!bytes || (best_bytes && *best_bytes <= *bytes)) continue;
    best = encoding;
    best_bytes = bytes;
  }
  return best;
}

void write_hqq_codes(const int* codes, int bits, std::uint8_t* out) {
  std::fill_n(out, kGroupSize / 8 * bits, std::uint8_t{0});
  const auto put = [&](int byte, unsigned int of_code) {
    out[byte] = static_cast<std::uint8_t>(out[byte] | of_code);
  };
  for (int i = 0; i < kGroupSize; ++i) {
    const auto code = static_cast<unsigned int>(codes[i]);
    if (bits == 4) {
      put(i % kHalfGroupSize, code << (i / kHalfGroupSize * 4));
      continue;
    }
    const int bit = i * bits;
    const unsigned int word = code << (bit % 8);
    put(bit / 8, word & 0xFFU);
    if (bit % 8 + bits > 8) put(bit / 8 + 1, word >> 8U);
  }
}

void expand_hqq_block(Encoding encoding, const std::uint8_t* block, CompactGroup* groups) {
  const HqqForm form = hqq_form(encoding);
  const int offset = form.bits == 8 ? kHqqSignedZero : 0;
  const std::uint8_t* const zeros = block + 2 * form.spans;
  const std::uint8_t* codes = block + form.header_bytes();
  for (std::int64_t g = 0; g < form.block_inputs() / kGroupSize; ++g, codes += form.group_bytes()) {
    const std::int64_t span = g * kGroupSize / form.span;
    const float scale = f16_to_float(load_half_bits(block + 2 * span));
    const float zero = form.whole_zeros ? static_cast<float>(*zeros >> (4 * span) & 15)
                                        : f16_to_float(load_half_bits(zeros));
    CompactGroup& group = groups[g];
    group.scales[0] = group.scales[1] = scale;
    group.minima[0] = group.minima[1] = -(scale * (zero - static_cast<float>(offset)));
    for (int i = 0; i < kGroupSize; ++i) {
      group.codes[i] = static_cast<std::int8_t>(read_hqq_code(codes, form.bits, i) - offset);
    }
  }
}

bool is_finite_hqq_block(Encoding encoding, const std::uint8_t* block) {
  const HqqForm form = hqq_form(encoding);
  const std::int64_t halves = form.spans + (form.whole_zeros ? 0 : 1);
  for (std::int64_t i = 0; i < halves; ++i) {
    if (!is_finite_half(block + 2 * i)) return false;
  }
  return true;
}

}  // namespace quire
