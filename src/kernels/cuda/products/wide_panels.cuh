// Two panels times a tile of at most 64 rows, by one warp: weights come through the warp's streams,
// inputs from shared memory, where all warps of a block read the same.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/panel_fragments.cuh"
#include "kernels/cuda/products/panel_spans.cuh"
#include "kernels/cuda/products/panel_stream.cuh"

namespace quire::cuda {

inline constexpr int kWidePanels = 2;  // of a warp
inline constexpr int kWideTiles = 8;   // of eight rows
inline constexpr int kWideGroups = 4;  // whose inputs are in shared memory at once
inline constexpr int kWideRows = 8 * kWideTiles;

// Of some groups of 32 inputs, as round_fragments() writes rows.
struct WideInputs {
  std::uint16_t x[kWideGroups][kWideRows][32];
  float sums[kWideGroups][kWideRows];
};

template <WeightLayout kLayout>
class WidePanels {
 public:
  using Form = StreamForm<kLayout>;
  // Of two panels and the rows of a tile: [panel][tile of eight rows] as mma.sync has it.
  using Totals = float[kWidePanels][kWideTiles][4];

  // tiles: of eight rows, that there are.
  __device__ WidePanels(const std::uint8_t* const (&panels)[kWidePanels], std::int64_t panel_bytes,
                        std::int64_t inputs, int tiles, int lane)
      : panel_bytes_(panel_bytes), inputs_(static_cast<int>(inputs)), tiles_(tiles), lane_(lane) {
#pragma unroll
    for (int i = 0; i < kWidePanels; ++i) {
      header_[i] = load_panel_header<kLayout>(panels[i], inputs, lane);
    }
  }

  // Groups `first` to `first` + kWideGroups - 1, with a multiple of kWideGroups as the first; the
  // chunks have group `first` at `place`.
  __device__ void multiply(const std::uint8_t* const (&chunks)[kWidePanels], int first, int place,
                           const WideInputs& inputs) {
    static_assert(kWideGroups % kUnroll == 0 && Form::kGroupsAtOnce % kWideGroups == 0);
#pragma unroll 1
    for (int j = 0; j < kWideGroups; j += kUnroll) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        if ((first + j + i) * 32 >= inputs_) return;
        multiply_group(chunks, first + j + i, place + j + i, i, inputs.x[j + i],
                       inputs.sums[j + i - i % kUnroll], inputs.sums[j + i]);
      }
    }
  }

  __device__ void finish() {
    if constexpr (kForm.ends_with_factor()) {
#pragma unroll
      for (int i = 0; i < kWidePanels * kWideTiles * 4; ++i) {
        const int panel = i / (kWideTiles * 4);
        totals_[panel][i / 4 % kWideTiles][i % 4] *= header_[panel].factor[i / 2 % 2];
      }
    }
  }

  __device__ const Totals& totals() const { return totals_; }

 private:
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr int kTerms = fragment_terms(kForm.codes);
  static constexpr int kHalves = kForm.has_halves ? 2 : 1;
  static constexpr int kSums = kForm.num_sums();
  static constexpr int kSpanGroups = static_cast<int>(kForm.span_groups);
  static constexpr bool kHasSpans = kSpanGroups != 0;
  // Whole spans, where they are not longer than what is in shared memory.
  static constexpr int kUnroll = !kHasSpans || kSpanGroups > kWideGroups ? 2 : kSpanGroups;
  // Whether a span's first group is known when this is compiled.
  static constexpr bool kSpansAreUnrolled = kHasSpans && kSpanGroups <= kWideGroups;

  using Fragments = GroupFragments<kForm.codes>;
  using Sums = float[kWidePanels][kSums][kWideTiles][4];

  // `index`: of the unrolled groups.
  __device__ void multiply_group(const std::uint8_t* const (&chunks)[kWidePanels], int group,
                                 int place, int index, const std::uint16_t (&x)[kWideRows][32],
                                 const float* first_sums, const float* sums) {
    const std::uint8_t* blocks[kWidePanels];
    const int place_in_own = place % Form::kBlockGroups;
    Fragments a[kWidePanels];
#pragma unroll
    for (int i = 0; i < kWidePanels; ++i) {
      blocks[i] = chunks[i] + place / Form::kBlockGroups * Form::kBlockBytes;
      load_fragments(i, blocks[i], place_in_own, group, a[i]);
    }
    const bool begins = kSpansAreUnrolled && index == 0;
#pragma unroll
    for (int tile = 0; tile < kWideTiles; ++tile) {
      if (tile >= tiles_) break;
      const uint4 b = *reinterpret_cast<const uint4*>(&x[8 * tile + lane_ / 4][lane_ % 4 * 8]);
      const std::uint32_t words[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int step = 0; step < 2 * kTerms; ++step) {
        const int half = step / kTerms;
        const int sum = sum_of_fragment<kLayout>(step);
        const bool is_first = begins && step < kSums;
#pragma unroll
        for (int i = 0; i < kWidePanels; ++i) {
          float(&to)[4] = sums_of(i, sum, tile);
          if (is_first) {
            multiply_first(to, a[i][step], words[2 * half], words[2 * half + 1]);
          } else {
            multiply_add(to, a[i][step], words[2 * half], words[2 * half + 1]);
          }
        }
      }
    }
    if constexpr (kHasSpans) {
      const bool ends =
          kSpansAreUnrolled ? index + 1 == kSpanGroups : (group + 1) % kSpanGroups == 0;
      if (ends || group * 32 + 32 >= inputs_) {
#pragma unroll
        for (int i = 0; i < kWidePanels; ++i) {
          add_span(i, blocks[i], place_in_own, group, first_sums, sums);
        }
      }
    }
  }

  __device__ void load_fragments(int panel, const std::uint8_t* block, int place, int group,
                                 Fragments& a) const {
    LaneWords<kLayout> words;
    if constexpr (kForm.is_dense()) {
      if (group * 32 + 32 > inputs_) {
        words.load_front(block, static_cast<int>(panel_bytes_ - group * kForm.group_bytes), lane_);
      } else {
        load_lane_words<kLayout>(block, place, lane_, words);
      }
    } else {
      load_lane_words<kLayout>(block, place, lane_, words);
    }
    ZeroPairs zeros = header_[panel].zeros;
    if constexpr (kForm.has_span_zeros()) zeros = load_span_zeros<kLayout>(block, lane_);
    expand_lane_words<kLayout>(words, zeros, lane_, a);
  }

  __device__ void add_span(int panel, const std::uint8_t* block, int place, int group,
                           const float* first_sums, const float* sums) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const SpanScales span =
          load_span_scales<kLayout>(header_[panel], block, place, group, half, lane_);
#pragma unroll
      for (int tile = 0; tile < kWideTiles; ++tile) {
        if (tile >= tiles_) break;
        float of_rows[2] = {};
        if constexpr (kForm.has_minimum) input_sums(first_sums, sums, tile, of_rows);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& total = totals_[panel][tile][i];
          float& sum = sums_[panel][half][tile][i];
          total = fmaf(span.scale[i / 2], sum, total);
          if constexpr (kForm.has_minimum) {
            total = fmaf(span.minimum[i / 2], of_rows[i % 2], total);
          }
          if constexpr (kForm.has_minimum_codes()) {
            float& of_minima = sums_[panel][1][tile][i];
            total = fmaf(span.minimum[i / 2], of_minima, total);
            if (!kSpansAreUnrolled) of_minima = 0.0F;
          }
          if (!kSpansAreUnrolled) sum = 0.0F;
        }
      }
    }
  }

  // Of the span that ends, of the two rows that the lane has sums of.
  __device__ void input_sums(const float* first_sums, const float* sums, int tile,
                             float (&of_rows)[2]) const {
    static_assert(!kForm.has_minimum || kSpanGroups == 1 || kSpanGroups == kWideGroups);
    const int row = 8 * tile + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kSpanGroups == 1) {
        of_rows[i] = sums[row + i];
      } else {
        const float* const of = first_sums + row + i;
        of_rows[i] = (of[0] + of[kWideRows]) + (of[2 * kWideRows] + of[3 * kWideRows]);
      }
    }
  }

  __device__ float (&sums_of(int panel, int half, int tile))[4] {
    if constexpr (kHasSpans) {
      return sums_[panel][half][tile];
    } else {
      return totals_[panel][tile];
    }
  }

  __device__ static void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4],
                                      std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  __device__ static void multiply_first(float (&sums)[4], const std::uint32_t (&a)[4],
                                        std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
  }

  std::int64_t panel_bytes_;
  int inputs_;
  int tiles_;
  int lane_;
  PanelHeader header_[kWidePanels];
  Totals totals_ = {};
  float sums_[kHasSpans ? kWidePanels : 1][kSums][kWideTiles][4] = {};
};

}  // namespace quire::cuda
