// Compact blocks of codebooks and of ternary digits (quant/compact_block.h), expanded by vectors:
// the codes of a group are put together for each output, then turned into lines. The bytes are
// those of level ref.
#include "kernels/cpu/avx2/expand_blocks.inl.h"
#include "kernels/cpu/avx2/matmul_avx2.h"
#include "quant/compact_block.h"
#include "quant/grid_tables.h"

namespace quire {
namespace {

// What a group of an encoding is made of.
struct GridGroup {
  std::uint64_t octets[4];   // entries of the codebook
  std::uint32_t signs;       // a bit for each weight
  std::uint32_t factors[2];  // s, of each half
};

[[gnu::always_inline]] inline std::uint32_t load_word(const std::uint8_t* from) {
  std::uint32_t word = 0;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

[[gnu::always_inline]] inline std::uint32_t nibble(const std::uint8_t* from, int i) {
  return static_cast<std::uint32_t>(from[i / 2] >> (i % 2 * 4) & 15);
}

[[gnu::always_inline]] inline std::uint64_t two_quads(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}

// The signs of four times seven bits.
[[gnu::always_inline]] inline std::uint32_t all_signs(std::uint32_t word) {
  return eight_signs(word & 127) | eight_signs(word >> 7 & 127) << 8 |
         eight_signs(word >> 14 & 127) << 16 | eight_signs(word >> 21 & 127) << 24;
}

// Signs of weights, or (IQ1) of the eighth that is added to each.
enum class Signs { kOfWeights, kOfEighths };

struct Iq2Xxs {
  static constexpr std::int64_t kBytes = 66;
  static constexpr float kUnit = 0.125F;
  static constexpr Signs kSigns = Signs::kOfWeights;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    const std::uint8_t* indices = block + 2 + 8 * g;
    const std::uint32_t word = load_word(indices + 4);
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) group.octets[i] = kIq2XxsGrid.entries[indices[i]];
    group.signs = all_signs(word);
    group.factors[0] = group.factors[1] = word >> 28;
  }
};

struct Iq2Xs {
  static constexpr std::int64_t kBytes = 74;
  static constexpr float kUnit = 0.125F;
  static constexpr Signs kSigns = Signs::kOfWeights;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    group.signs = 0;
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = half_bits(block + 2 + 8 * g + 2 * i);
      group.octets[i] = kIq2XsGrid.entries[word & 511];
      group.signs |= eight_signs(word >> 9) << (8 * i);
    }
    group.factors[0] = nibble(block + 66, 2 * g);
    group.factors[1] = nibble(block + 66, 2 * g + 1);
  }
};

struct Iq2S {
  static constexpr std::int64_t kBytes = 82;
  static constexpr float kUnit = 0.125F;
  static constexpr Signs kSigns = Signs::kOfWeights;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int index = block[2 + 4 * g + i] | (block[66 + g] >> (2 * i) & 3) << 8;
      group.octets[i] = kIq2SGrid.entries[index];
    }
    group.signs = load_word(block + 34 + 4 * g);
    group.factors[0] = nibble(block + 74, 2 * g);
    group.factors[1] = nibble(block + 74, 2 * g + 1);
  }
};

struct Iq3Xxs {
  static constexpr std::int64_t kBytes = 98;
  static constexpr float kUnit = 0.25F;
  static constexpr Signs kSigns = Signs::kOfWeights;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    const std::uint8_t* indices = block + 2 + 8 * g;
    const std::uint32_t word = load_word(block + 66 + 4 * g);
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      group.octets[i] =
          two_quads(kIq3XxsGrid.entries[indices[2 * i]], kIq3XxsGrid.entries[indices[2 * i + 1]]);
    }
    group.signs = all_signs(word);
    group.factors[0] = group.factors[1] = word >> 28;
  }
};

struct Iq3S {
  static constexpr std::int64_t kBytes = 110;
  static constexpr float kUnit = 1.0F;
  static constexpr Signs kSigns = Signs::kOfWeights;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    const std::uint8_t* indices = block + 2 + 8 * g;
    const int high = block[66 + g];
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      group.octets[i] =
          two_quads(kIq3SGrid.entries[indices[2 * i] | (high >> (2 * i) & 1) << 8],
                    kIq3SGrid.entries[indices[2 * i + 1] | (high >> (2 * i + 1) & 1) << 8]);
    }
    group.signs = load_word(block + 74 + 4 * g);
    group.factors[0] = group.factors[1] = nibble(block + 106, g);
  }
};

struct Iq1S {
  static constexpr std::int64_t kBytes = 50;
  static constexpr float kUnit = 0.125F;
  static constexpr Signs kSigns = Signs::kOfEighths;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    const std::uint32_t word = half_bits(block + 34 + 2 * g);
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      group.octets[i] = kIq1Grid.entries[block[2 + 4 * g + i] | (word >> (3 * i) & 7) << 8];
    }
    group.signs = (word & 0x8000U) != 0 ? ~0U : 0U;
    group.factors[0] = group.factors[1] = word >> 12 & 7;
  }
};

struct Iq1M {
  static constexpr std::int64_t kBytes = 56;
  static constexpr float kUnit = 0.125F;
  static constexpr Signs kSigns = Signs::kOfEighths;
  [[gnu::always_inline]] static void read(const std::uint8_t* block, int g, GridGroup& group) {
    group.signs = 0;
    QUIRE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t bits = nibble(block + 32, 4 * g + i);
      group.octets[i] = kIq1Grid.entries[block[4 * g + i] | (bits & 7) << 8];
      group.signs |= (bits >> 3) * 0xFFU << (8 * i);
    }
    const std::uint32_t word = half_bits(block + 48 + g / 2 * 2);
    group.factors[0] = word >> (g % 2 * 6) & 7;
    group.factors[1] = word >> (g % 2 * 6 + 3) & 7;
  }
};

template <typename Grid>
Numbers grid_scales(const std::uint8_t* blocks) {
  return halves_at(blocks, Grid::kBytes);
}

// The scale of IQ1_M is spread over the top of four words.
template <>
Numbers grid_scales<Iq1M>(const std::uint8_t* blocks) {
  const Integers first = words(blocks + 48, Iq1M::kBytes);
  const Integers second = words(blocks + 52, Iq1M::kBytes);
  return halves(first.bits(12, 4) | first.bits(28, 4).shifted_left(4) |
                second.bits(12, 4).shifted_left(8) | second.bits(28, 4).shifted_left(12));
}

// All ones in the bytes whose bit of 32 is set.
[[gnu::always_inline]] inline __m256i mask_of_bits(std::uint32_t bits) {
  const __m256i byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201U));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
}

template <typename Grid>
void expand_grid(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  for (std::int64_t k = 0; k < inputs; k += 256) {
    const __m256 unit = _mm256_set1_ps(Grid::kUnit);
    const Numbers scales = grid_scales<Grid>(blocks) * Numbers{{unit, unit}};
    for (int g = 0; g < 8; ++g, panel += kHalves.block_bytes()) {
      alignas(32) std::uint8_t codes[kOutputs][32];
      alignas(32) std::uint32_t factors[2][kOutputs];
      for (int n = 0; n < kOutputs; ++n) {
        GridGroup group;
        Grid::read(blocks + n * Grid::kBytes, g, group);
        const auto octet = [&](int i) __attribute__((always_inline)) {
          return static_cast<long long>(group.octets[i]);
        };
        const __m256i values = _mm256_setr_epi64x(octet(0), octet(1), octet(2), octet(3));
        const __m256i minus = mask_of_bits(group.signs);
        __m256i signed_values;
        if constexpr (Grid::kSigns == Signs::kOfWeights) {
          signed_values = _mm256_sub_epi8(_mm256_xor_si256(values, minus), minus);
        } else {
          signed_values = _mm256_add_epi8(values, _mm256_or_si256(minus, _mm256_set1_epi8(1)));
        }
        store_line(codes[n], signed_values);
        for (int half = 0; half < 2; ++half) factors[half][n] = 2 * group.factors[half] + 1;
      }
      for (int part = 0; part < 4; ++part) {
        const Columns columns(codes[part % 2 * 8] + part / 2 * 16, 32);
        QUIRE_UNROLL
        for (int u = 0; u < 4; ++u) {
          store_line(panel + (part / 2 * 4 + u) * kLine + part % 2 * 32, columns.word[u]);
        }
      }
      for (int half = 0; half < 2; ++half) {
        const auto* of_half = reinterpret_cast<const __m256i*>(factors[half]);
        const Integers factor(_mm256_load_si256(of_half), _mm256_load_si256(of_half + 1));
        (scales * factor).store(panel + kScales + 64 * half);
      }
    }
    blocks += kOutputs * Grid::kBytes;
  }
}

// The first of the digits that a byte is, as a fraction of 256, less one: fractions from 86 on are
// 1, and from 171 on 2.
__m256i first_digit(__m256i fractions) {
  const auto is_at_least = [&](int least) __attribute__((always_inline)) {
    const __m256i bound = _mm256_set1_epi8(static_cast<char>(least));
    return _mm256_cmpeq_epi8(_mm256_max_epu8(fractions, bound), fractions);
  };
  const __m256i digit = _mm256_sub_epi8(_mm256_set1_epi8(-1), is_at_least(86));
  return _mm256_sub_epi8(digit, is_at_least(171));
}

// The fractions that are left behind the first digit: three times as much, modulo 1.
__m256i next_fractions(__m256i fractions) {
  return _mm256_add_epi8(fractions, _mm256_add_epi8(fractions, fractions));
}

void expand_tq1_0(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 54;
  for (std::int64_t k = 0; k < inputs; k += 256) {
    const Numbers scales = halves_behind(blocks + 52, kBytes);
    for (int g = 0; g < 8; ++g) store_scale(scales, panel + g * kHalves.block_bytes());
    const Integers last = words(blocks + 48, kBytes);
    for (int eight = 0; eight < 2; ++eight) {  // outputs
      const std::uint8_t* from = blocks + eight * 8 * kBytes;
      // Digit `digit` of word `word` of the bytes whose first digits are weights from `first` on,
      // and later ones those `words` words further.
      const auto store = [&](__m256i fractions, int first, int words, int word, int digits)
          __attribute__((always_inline)) {
        for (int digit = 0; digit < digits; ++digit) {
          const int at = first / 4 + digit * words + word;  // the quad of the block
          store_line(panel + at / 8 * kHalves.block_bytes() + at % 8 * kLine + eight * 32,
                     first_digit(fractions));
          fractions = next_fractions(fractions);
        }
      };
      for (int part = 0; part < 3; ++part) {
        const Columns columns(from + 16 * part, kBytes);
        for (int u = 0; u < 4; ++u) {
          if (part < 2) {
            store(columns.word[u], 0, 8, part * 4 + u, 5);
          } else {
            store(columns.word[u], 160, 4, u, 5);
          }
        }
      }
      store(last.eight[eight], 240, 1, 0, 4);
    }
    blocks += kOutputs * kBytes;
    panel += 8 * kHalves.block_bytes();
  }
}

void expand_tq2_0(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr std::int64_t kBytes = 66;
  const auto less_one = [](__m256i codes, int, int) __attribute__((always_inline)) {
    return _mm256_sub_epi8(codes, _mm256_set1_epi8(1));
  };
  for (std::int64_t k = 0; k < inputs; k += 256) {
    const Numbers scales = halves_behind(blocks + 64, kBytes);
    for (int g = 0; g < 8; ++g) store_scale(scales, panel + g * kHalves.block_bytes());
    expand_two_bits(blocks, kBytes, kHalves.block_bytes(), panel, less_one);
    blocks += kOutputs * kBytes;
    panel += 8 * kHalves.block_bytes();
  }
}

}  // namespace

void set_avx2_grid_expanders(MatmulKernels& kernels) {
  const auto set = [&](WeightLayout layout, PanelExpander expand) {
    kernels.expand[static_cast<int>(layout)] = expand;
  };
  set(WeightLayout::kBlocksIQ2_XXS, expand_grid<Iq2Xxs>);
  set(WeightLayout::kBlocksIQ2_XS, expand_grid<Iq2Xs>);
  set(WeightLayout::kBlocksIQ2_S, expand_grid<Iq2S>);
  set(WeightLayout::kBlocksIQ3_XXS, expand_grid<Iq3Xxs>);
  set(WeightLayout::kBlocksIQ3_S, expand_grid<Iq3S>);
  set(WeightLayout::kBlocksIQ1_S, expand_grid<Iq1S>);
  set(WeightLayout::kBlocksIQ1_M, expand_grid<Iq1M>);
  set(WeightLayout::kBlocksTQ1_0, expand_tq1_0);
  set(WeightLayout::kBlocksTQ2_0, expand_tq2_0);
}

}  // namespace quire
