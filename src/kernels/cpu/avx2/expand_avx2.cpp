// Compact blocks with codes of two to four bits (quant/compact_block.h), expanded by vectors: what
// the same bits of all outputs become is computed together. The bytes are those of level ref.
#include "kernels/cpu/avx2/expand_blocks.inl.h"
#include "kernels/cpu/avx2/matmul_avx2.h"
#include "quant/compact_block.h"

namespace quire {
namespace {

// Sixteen bytes of nibbles of all outputs as a group's codes. The low nibbles of word u are quad u,
// or (kInTurn) quad u / 2 * 4 + u % 2; the high ones come 4 quads later, or 2.
template <bool kInTurn>
void expand_nibbles(const std::uint8_t* nibbles, std::int64_t stride, const std::int8_t* table,
                    std::uint8_t* lines) {
  const __m256i values =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  const __m256i mask = _mm256_set1_epi8(15);
  for (int half = 0; half < 2; ++half) {
    const Columns columns(nibbles + 8 * half * stride, stride);
    QUIRE_UNROLL
    for (int u = 0; u < 4; ++u) {
      const int quad = kInTurn ? u / 2 * 4 + u % 2 : u;
      std::uint8_t* line = lines + quad * kLine + 32 * half;
      const __m256i low = _mm256_and_si256(columns.word[u], mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(columns.word[u], 4), mask);
      store_line(line, _mm256_shuffle_epi8(values, low));
      store_line(line + (kInTurn ? 2 : 4) * kLine, _mm256_shuffle_epi8(values, high));
    }
  }
}

void expand_iq4_nl(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 18;
  for (std::int64_t k = 0; k < inputs; k += 32) {
    store_scale(halves_at(blocks, kBytes), panel);
    expand_nibbles<false>(blocks + 2, kBytes, kIq4Table, panel);
    blocks += kOutputs * kBytes;
    panel += kHalves.block_bytes();
  }
}

void expand_iq4_xs(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 136;
  for (std::int64_t k = 0; k < inputs; k += 256) {
    const Integers scale_and_high = words(blocks, kBytes);
    const Integers low = words(blocks + 4, kBytes);
    const Numbers scales = halves(scale_and_high);
    for (int g = 0; g < 8; ++g, panel += kHalves.block_bytes()) {
      const Integers high = scale_and_high.bits(16 + 2 * g, 2).shifted_left(4);
      store_scale(scales * ((low.bits(4 * g, 4) | high) - 32), panel);
      expand_nibbles<false>(blocks + 8 + 16 * g, kBytes, kIq4Table, panel);
    }
    blocks += kOutputs * kBytes;
  }
}

// 2^(e - 128): 2^-128 and 2^-127 are subnormal.
Numbers e8m0_halves(const Integers& exponents) {
  const auto make = [](__m256i e) __attribute__((always_inline)) {
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
  };
  return {{make(exponents.eight[0]), make(exponents.eight[1])}};
}

void expand_mxfp4(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 17;
  for (std::int64_t k = 0; k < inputs; k += 32) {
    store_scale(e8m0_halves(words(blocks, kBytes).bits(0, 8)), panel);
    expand_nibbles<false>(blocks + 1, kBytes, kE2m1Table, panel);
    blocks += kOutputs * kBytes;
    panel += kHalves.block_bytes();
  }
}

// Exponent and mantissa of e4m3 in the places of a float's are 2^-120 of its value; 0x7F is zero.
Numbers e4m3_halves(const Integers& bytes) {
  const auto make = [](__m256i bits) __attribute__((always_inline)) {
    const __m256i is_nan = _mm256_cmpeq_epi32(bits, _mm256_set1_epi32(0x7F));
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7F));
    const __m256i moved = _mm256_slli_epi32(_mm256_andnot_si256(is_nan, magnitude), 20);
    return _mm256_mul_ps(_mm256_castsi256_ps(moved), _mm256_set1_ps(0x1p119F));
  };
  return {{make(bytes.eight[0]), make(bytes.eight[1])}};
}

void expand_nvfp4(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 36;
  for (std::int64_t k = 0; k < inputs; k += 64) {
    const Integers scales = words(blocks, kBytes);
    for (int g = 0; g < 2; ++g, panel += kHalves.block_bytes()) {
      e4m3_halves(scales.bits(16 * g, 8)).store(panel + kScales);
      e4m3_halves(scales.bits(16 * g + 8, 8)).store(panel + kScales + 64);
      expand_nibbles<true>(blocks + 4 + 16 * g, kBytes, kE2m1Table, panel);
    }
    blocks += kOutputs * kBytes;
  }
}

void expand_q2_k(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 84;
  constexpr GroupLayout kForm = group_layout(WeightLayout::kInt8HalvesMinimum);
  for (std::int64_t k = 0; k < inputs; k += 256) {
    const Integers both = words(blocks + 80, kBytes);
    const Numbers scales = halves(both);
    const Numbers minima = -halves(both.bits(16, 16));
    const auto keep = [](__m256i codes, int, int) __attribute__((always_inline)) { return codes; };
    expand_two_bits(blocks + 16, kBytes, kForm.block_bytes(), panel, keep);
    const Columns factors[2] = {{blocks, kBytes}, {blocks + 8 * kBytes, kBytes}};
    for (int part = 0; part < 16; ++part) {
      std::uint8_t* to = panel + part / 2 * kForm.block_bytes() + kScales + part % 2 * 64;
      const Integers word(factors, part / 4);
      (scales * word.bits(part % 4 * 8, 4)).store(to);
      (minima * word.bits(part % 4 * 8 + 4, 4)).store(to + 128);
    }
    blocks += kOutputs * kBytes;
    panel += 8 * kForm.block_bytes();
  }
}

void expand_q3_k(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 110;
  for (std::int64_t k = 0; k < inputs; k += 256) {
    __m256i thirds[16];  // bit g of each byte is of group g
    for (int part = 0; part < 4; ++part) {
      const Columns columns(blocks + part % 2 * 8 * kBytes + part / 2 * 16, kBytes);
      for (int u = 0; u < 4; ++u) thirds[(part / 2 * 4 + u) * 2 + part % 2] = columns.word[u];
    }
    const auto finish = [&](__m256i codes, int g, int i) __attribute__((always_inline)) {
      const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << g));
      const __m256i is_clear =
          _mm256_cmpeq_epi8(_mm256_and_si256(thirds[i], bit), _mm256_setzero_si256());
      return _mm256_sub_epi8(codes, _mm256_and_si256(is_clear, _mm256_set1_epi8(4)));
    };
    expand_two_bits(blocks + 32, kBytes, kHalves.block_bytes(), panel, finish);
    const Integers factors[3] = {words(blocks + 96, kBytes), words(blocks + 100, kBytes),
                                 words(blocks + 104, kBytes)};
    const Numbers scales = halves_behind(blocks + 108, kBytes);
    for (int part = 0; part < 16; ++part) {
      const Integers low = factors[part % 8 / 4].bits(part % 4 * 8 + part / 8 * 4, 4);
      const Integers high = factors[2].bits(part % 4 * 8 + part / 4 * 2, 2).shifted_left(4);
      (scales * ((low | high) - 32))
          .store(panel + part / 2 * kHalves.block_bytes() + kScales + part % 2 * 64);
    }
    blocks += kOutputs * kBytes;
    panel += 8 * kHalves.block_bytes();
  }
}

constexpr GroupLayout kWithMinimum = group_layout(WeightLayout::kInt8HalvesMinimum);
constexpr std::int8_t kSameCodes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Scale and minimum of groups that share them.
struct HqqNumbers {
  Numbers scale;
  Numbers minimum;

  void store(std::uint8_t* group) const {
    store_scale(scale, group);
    minimum.store(group + kScales + 128);
    minimum.store(group + kScales + 192);
  }
};

// Of HQQ's blocks: `offset` is subtracted from codes.
HqqNumbers hqq_numbers(const std::uint8_t* blocks, std::int64_t stride, float offset) {
  const Integers both = words(blocks, stride);
  const Numbers scale = halves(both);
  return {scale, -(scale * (halves(both.bits(16, 16)) - offset))};
}

// Of span `span` of GPTQ's blocks, which have kSpans.
template <int kSpans>
HqqNumbers gptq_numbers(const std::uint8_t* blocks, std::int64_t stride, int span) {
  const Integers first = words(blocks, stride);
  if constexpr (kSpans == 1) {
    const Numbers scale = halves(first);
    return {scale, -(scale * first.bits(16, 4))};
  } else {
    const Numbers scale = halves(first.bits(16 * span, 16));
    return {scale, -(scale * words(blocks + 4, stride).bits(4 * span, 4))};
  }
}

// Four codes of `kBits` bits each, in the low bits of each output's word, as bytes.
template <int kBits>
__m256i spread_codes(__m256i bits) {
  __m256i bytes = _mm256_and_si256(bits, _mm256_set1_epi32((1 << kBits) - 1));
  QUIRE_UNROLL
  for (int i = 1; i < 4; ++i) {
    const __m256i mask = _mm256_set1_epi32(((1 << kBits) - 1) << (8 * i));
    const __m256i moved = _mm256_slli_epi32(bits, (8 - kBits) * i);
    bytes = _mm256_or_si256(bytes, _mm256_and_si256(moved, mask));
  }
  return bytes;
}

// A group's codes of 2 and 3 bits, one after the other: a quad is 8 or 12 bits of its output's
// words.
template <int kBits>
void expand_bits(const std::uint8_t* codes, std::int64_t stride, std::uint8_t* lines) {
  const Integers word[3] = {words(codes, stride), words(codes + 4, stride),
                            words(codes + 4 * (kBits - 1), stride)};
  QUIRE_UNROLL
  for (int quad = 0; quad < 8; ++quad) {
    const int from = quad * 4 * kBits;
    const int shift = from % 32;
    QUIRE_UNROLL
    for (int half = 0; half < 2; ++half) {
      __m256i bits = _mm256_srli_epi32(word[from / 32].eight[half], shift);
      if (shift + 4 * kBits > 32) {
        bits =
            _mm256_or_si256(bits, _mm256_slli_epi32(word[from / 32 + 1].eight[half], 32 - shift));
      }
      store_line(lines + quad * kLine + half * 32, spread_codes<kBits>(bits));
    }
  }
}

template <int kBits, int kSpan>
void expand_hqq_bits(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 4 + kSpan / 8 * kBits;
  for (std::int64_t k = 0; k < inputs; k += kSpan) {
    const HqqNumbers numbers = hqq_numbers(blocks, kBytes, 0.0F);
    for (int g = 0; g < kSpan / 32; ++g, panel += kWithMinimum.block_bytes()) {
      numbers.store(panel);
      expand_bits<kBits>(blocks + 4 + g * 4 * kBits, kBytes, panel);
    }
    blocks += kOutputs * kBytes;
  }
}

template <int kBits, int kSpan, int kSpans>
void expand_gptq(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kHeader = 2 * kSpans + 1;
  constexpr std::int64_t kBytes = kHeader + kSpans * kSpan / 8 * kBits;
  for (std::int64_t k = 0; k < inputs; k += kSpans * kSpan) {
    const std::uint8_t* codes = blocks + kHeader;
    for (int span = 0; span < kSpans; ++span) {
      const HqqNumbers numbers = gptq_numbers<kSpans>(blocks, kBytes, span);
      for (int g = 0; g < kSpan / 32; ++g, panel += kWithMinimum.block_bytes()) {
        numbers.store(panel);
        expand_bits<kBits>(codes, kBytes, panel);
        codes += 4 * kBits;
      }
    }
    blocks += kOutputs * kBytes;
  }
}

template <int kSpan>
void expand_hqq4(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 4 + kSpan / 2;
  for (std::int64_t k = 0; k < inputs; k += kSpan) {
    const HqqNumbers numbers = hqq_numbers(blocks, kBytes, 0.0F);
    for (int g = 0; g < kSpan / 32; ++g, panel += kWithMinimum.block_bytes()) {
      numbers.store(panel);
      expand_nibbles<false>(blocks + 4 + 16 * g, kBytes, kSameCodes, panel);
    }
    blocks += kOutputs * kBytes;
  }
}

template <int kSpan>
void expand_hqq8(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 4 + kSpan;
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  for (std::int64_t k = 0; k < inputs; k += kSpan) {
    const HqqNumbers numbers = hqq_numbers(blocks, kBytes, 128.0F);
    for (int g = 0; g < kSpan / 32; ++g, panel += kWithMinimum.block_bytes()) {
      numbers.store(panel);
      for (int part = 0; part < 4; ++part) {  // outputs from 8 (part % 2) on, codes from 16 on
        const Columns columns(blocks + 4 + 32 * g + part / 2 * 16 + part % 2 * 8 * kBytes, kBytes);
        QUIRE_UNROLL
        for (int u = 0; u < 4; ++u) {
          store_line(panel + (part / 2 * 4 + u) * kLine + part % 2 * 32,
                     _mm256_xor_si256(columns.word[u], sign));
        }
      }
    }
    blocks += kOutputs * kBytes;
  }
}

}  // namespace

void set_avx2_expanders(MatmulKernels& kernels) {
  set_avx2_grid_expanders(kernels);
  const auto set = [&](WeightLayout layout, PanelExpander expand) {
    kernels.expand[static_cast<int>(layout)] = expand;
  };
  set(WeightLayout::kBlocksQ2_K, expand_q2_k);
  set(WeightLayout::kBlocksQ3_K, expand_q3_k);
  set(WeightLayout::kBlocksIQ4_NL, expand_iq4_nl);
  set(WeightLayout::kBlocksIQ4_XS, expand_iq4_xs);
  set(WeightLayout::kBlocksMXFP4, expand_mxfp4);
  set(WeightLayout::kBlocksNVFP4, expand_nvfp4);
  set(WeightLayout::kBlocksNVFP4Scaled, expand_nvfp4);
  set(WeightLayout::kBlocksHqq2Span32, expand_hqq_bits<2, 32>);
  set(WeightLayout::kBlocksHqq2Span64, expand_hqq_bits<2, 64>);
  set(WeightLayout::kBlocksHqq2Span128, expand_hqq_bits<2, 128>);
  set(WeightLayout::kBlocksHqq2Span256, expand_hqq_bits<2, 256>);
  set(WeightLayout::kBlocksHqq3Span32, expand_hqq_bits<3, 32>);
  set(WeightLayout::kBlocksHqq3Span64, expand_hqq_bits<3, 64>);
  set(WeightLayout::kBlocksHqq3Span128, expand_hqq_bits<3, 128>);
  set(WeightLayout::kBlocksHqq4Span32, expand_hqq4<32>);
  set(WeightLayout::kBlocksHqq4Span64, expand_hqq4<64>);
  set(WeightLayout::kBlocksHqq4Span128, expand_hqq4<128>);
  set(WeightLayout::kBlocksHqq4Span256, expand_hqq4<256>);
  set(WeightLayout::kBlocksHqq8Span32, expand_hqq8<32>);
  set(WeightLayout::kBlocksHqq8Span64, expand_hqq8<64>);
  set(WeightLayout::kBlocksHqq8Span128, expand_hqq8<128>);
  set(WeightLayout::kBlocksGptq2Span32, expand_gptq<2, 32, 2>);
  set(WeightLayout::kBlocksGptq2Span64, expand_gptq<2, 64, 2>);
  set(WeightLayout::kBlocksGptq2Span128, expand_gptq<2, 128, 1>);
  set(WeightLayout::kBlocksGptq2Span256, expand_gptq<2, 256, 1>);
  set(WeightLayout::kBlocksGptq3Span32, expand_gptq<3, 32, 2>);
  set(WeightLayout::kBlocksGptq3Span64, expand_gptq<3, 64, 2>);
  set(WeightLayout::kBlocksGptq3Span128, expand_gptq<3, 128, 1>);
  set(WeightLayout::kBlocksGptq3Span256, expand_gptq<3, 256, 1>);
}

}  // namespace quire
