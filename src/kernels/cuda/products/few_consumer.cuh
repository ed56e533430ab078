// What a multiplying warp of products_few.h does with the units of its panels.
//
// Sums of spans of inputs begin with zero, so that the warps of a team compute those of different
// units at the same time. Only to the total are they added in order: a warp gets it from the one
// before it, adds the sums of its unit, and hands it on. Where all inputs of a row are one sum, one
// warp multiplies a panel, and what it needs next is loaded while it waits for the tensor core.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/few_args.h"
#include "kernels/cuda/products/few_ring.cuh"
#include "kernels/cuda/products/panel_fragments.cuh"
#include "kernels/cuda/products/panel_spans.cuh"

namespace quire::cuda {

// Sums of 16 outputs and 8 rows as mma.sync leaves them: of outputs 2 g and 2 g + 1 for rows 2 t
// and 2 t + 1.
struct TileSums {
  float of[4] = {};
};

__device__ inline void multiply_add(TileSums& sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The first products of a sum.
__device__ inline void multiply(TileSums& sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};"
      : "=f"(sums.of[0]), "=f"(sums.of[1]), "=f"(sums.of[2]), "=f"(sums.of[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}

// A unit of an item's panels in shared memory, with its rows; the last of a panel may have fewer
// groups.
struct FewChunk {
  const std::uint8_t* weights = nullptr;  // of the first panel
  const std::uint8_t* rows = nullptr;  // [groups][rows][32] bfloat16, as round_fragments() has them
  const float* sums = nullptr;         // [spans][sum_stride]
  std::int32_t first_group = 0;        // of the panel
  std::int32_t groups = 0;
};

// Sums of spans of all panels and tiles that are multiplied before any is added to the total: what
// registers have room for.
constexpr int few_sums_at_once(const FragmentForm& form, int tiles, int panels) {
  const int tile_spans = tiles == 4 ? 16 : 8;
  const int spans = tile_spans / (tiles * panels * form.num_sums() * (form.has_minimum ? 2 : 1));
  return spans > 1 ? spans : 1;
}

// Of kPanels panels of 16 outputs and kTiles tiles of 8 rows.
template <WeightLayout kLayout, int kTiles, int kPanels>
class FewConsumer {
 public:
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr CodeForm kCodes = kForm.codes;
  static constexpr int kUnitGroups = few_unit_groups(kForm, kTiles, kPanels);
  static constexpr int kPieceGroups = few_piece_groups(kTiles, kPanels);

  using Sums = TileSums[kPanels][kTiles];

  // What a lane needs to multiply a group.
  struct Group {
    LaneWords<kLayout> words[kPanels];
    uint4 x[kTiles];
  };

  // Some groups of layouts with one sum.
  struct Piece {
    Group groups[kPieceGroups];
  };

  // `first_tile`: of eight rows each.
  __device__ FewConsumer(const FewArgs& args, int first_tile, int lane)
      : inputs_(static_cast<std::int32_t>(args.inputs)),
        lane_(lane),
        panel_bytes_(args.plan.chunk_bytes),
        row_bytes_(args.rows * 64),
        sum_stride_(static_cast<int>(sum_stride(args.rows))) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      // A lane whose row is not there reads another one; its sums are not stored.
      const int row = min((first_tile + i) * 8 + lane / 4, args.rows - 1);
      row_offsets_[i] = row * 64 + lane % 4 * 16;
      sum_places_[i] = min((first_tile + i) * 8 + lane % 4 * 2, sum_stride_ - 2);
    }
  }

  // `index`: of the item.
  __device__ void begin_panel(int index, const std::uint8_t* panel) {
    headers_[index] = load_panel_header<kLayout>(panel, inputs_, lane_);
  }
  __device__ Sums& totals() { return totals_; }

  // Of layouts with spans: multiplies a unit. `receive` is called before the first sum is added to
  // the totals: it sets them.
  template <typename Receive>
  __device__ void multiply_unit(const FewChunk& chunk, const Receive& receive) {
    if (chunk.groups == kUnitGroups) {
      add_unit(chunk, receive);
      return;
    }
    for (std::int32_t group = 0; group < chunk.groups; group += kSpanGroups) {
      SpanSums sums;
      sum_span(chunk, group, min(kSpanGroups, chunk.groups - group), sums);
      if (group == 0) receive();
      for (int half = 0; half < kHalves; ++half) {
        for (int i = 0; i < kPanels; ++i) {
          add_span(chunk, group, i, half, scales_of(chunk, group, i, half), sums);
        }
      }
    }
  }

  __device__ void load_piece(const FewChunk& chunk, std::int32_t group, Piece& to) const {
#pragma unroll
    for (int i = 0; i < kPieceGroups; ++i) load_group(chunk, group + i, to.groups[i]);
  }
  // Of the other layouts.
  __device__ void add_piece(const Piece& piece) {
#pragma unroll
    for (const Group& group : piece.groups) add_group(group);
  }
  // What is left at the end of a panel: fewer groups than a unit has.
  __device__ void add_rest(const FewChunk& chunk) {
    std::int32_t whole = chunk.groups;
    if constexpr (kForm.is_dense()) {
      whole = min(whole, inputs_ / static_cast<int>(kGroupInputs) - chunk.first_group);
    }
    Group group;
    for (std::int32_t i = 0; i < whole; ++i) {
      load_group(chunk, i, group);
      add_group(group);
    }
    if constexpr (kForm.is_dense()) {
      if (whole == chunk.groups) return;
      const int left = inputs_ - (chunk.first_group + whole) * static_cast<int>(kGroupInputs);
      // Of bfloat16 a line has two inputs.
      const int bytes = (kCodes == CodeForm::kBf16 ? (left + 1) / 2 * 2 : left) * 32;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        group.words[panel].load_front(block_of(chunk, whole, panel), bytes, lane_);
      }
      load_rows(chunk, whole, group);
      add_group(group);
    }
  }

  // Of layouts whose rows have one scale, or a divisor: after the last unit.
  __device__ void end_panel() {
    if constexpr (kForm.ends_with_factor()) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
        for (TileSums& total : totals_[panel]) {
#pragma unroll
          for (int i = 0; i < 4; ++i) total.of[i] *= headers_[panel].factor[i / 2];
        }
      }
    }
  }

 private:
  static constexpr int kTerms = fragment_terms(kCodes);
  static constexpr int kHalves = kForm.has_halves ? 2 : 1;
  static constexpr int kSums = kForm.num_sums();
  static constexpr int kSpanGroups = static_cast<int>(kForm.span_groups);

  // Of a span, or of the halves of a group; the second ones may be of codes of minima.
  struct SpanSums {
    Sums of[kSums];
  };

  __device__ const std::uint8_t* block_of(const FewChunk& chunk, std::int32_t group,
                                          int panel) const {
    constexpr FragmentForm form = fragment_form(kLayout);
    return chunk.weights + panel * panel_bytes_ + (form.block_offset(group) - form.header_bytes);
  }
  // Of a group in its block.
  __device__ static int place_of(std::int32_t group) {
    return group % static_cast<int>(kForm.block_groups);
  }

  __device__ void load_rows(const FewChunk& chunk, std::int32_t group, Group& to) const {
    const std::uint8_t* rows = chunk.rows + group * row_bytes_;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      to.x[i] = *reinterpret_cast<const uint4*>(rows + row_offsets_[i]);
    }
  }

  // Adds to one sum of a panel or to two; with `begins`, these are new. `zeros`: of a panel.
  template <typename Zeros>
  __device__ void multiply_group(const Group& group, const Zeros& zeros, bool begins, Sums& first,
                                 Sums& second) const {
    GroupFragments<kCodes> a[kPanels];
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      expand_lane_words<kLayout>(group.words[panel], zeros(panel), lane_, a[panel]);
    }
#pragma unroll
    for (int index = 0; index < 2 * kTerms; ++index) {
      const bool is_second = sum_of_fragment<kLayout>(index) == 1;
      const bool is_new = begins && index < kSums;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const uint4 x = group.x[i];
        const std::uint32_t b0 = index < kTerms ? x.x : x.z;
        const std::uint32_t b1 = index < kTerms ? x.y : x.w;
#pragma unroll
        for (int panel = 0; panel < kPanels; ++panel) {
          TileSums& sum = is_second ? second[panel][i] : first[panel][i];
          if (is_new) {
            multiply(sum, a[panel][index], b0, b1);
          } else {
            multiply_add(sum, a[panel][index], b0, b1);
          }
        }
      }
    }
  }

  __device__ void load_group(const FewChunk& chunk, std::int32_t group, Group& to) const {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      load_lane_words<kLayout>(block_of(chunk, group, panel), place_of(group), lane_,
                               to.words[panel]);
    }
    load_rows(chunk, group, to);
  }
  __device__ void add_group(const Group& group) {
    multiply_group(
        group, [&](int panel) { return headers_[panel].zeros; }, false, totals_, totals_);
  }
  __device__ void sum_span(const FewChunk& chunk, std::int32_t group, int count,
                           SpanSums& sums) const {
    ZeroPairs zeros[kPanels];
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      zeros[panel] = headers_[panel].zeros;
      if constexpr (kForm.has_span_zeros()) {
        zeros[panel] = load_span_zeros<kLayout>(block_of(chunk, group, panel), lane_);
      }
    }
#pragma unroll
    for (int i = 0; i < kSpanGroups; ++i) {
      if (i >= count) break;
      Group own;
      load_group(chunk, group + i, own);
      multiply_group(
          own, [&](int panel) { return zeros[panel]; }, i == 0, sums.of[0], sums.of[kSums - 1]);
    }
  }

  __device__ SpanScales scales_of(const FewChunk& chunk, std::int32_t group, int panel,
                                  int half) const {
    return load_span_scales<kLayout>(headers_[panel], block_of(chunk, group, panel),
                                     place_of(group), chunk.first_group + group, half, lane_);
  }

  // Adds a span of a panel, or half `half` of a group.
  __device__ void add_span(const FewChunk& chunk, std::int32_t group, int panel, int half,
                           const SpanScales& span, const SpanSums& sums) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      TileSums& total = totals_[panel][tile];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total.of[i] = fmaf(span.scale[i / 2], sums.of[half][panel][tile].of[i], total.of[i]);
        if constexpr (kForm.has_minimum_codes()) {
          total.of[i] = fmaf(span.minimum[i / 2], sums.of[1][panel][tile].of[i], total.of[i]);
        }
      }
      if constexpr (kForm.has_minimum) {
        const float2 inputs = *reinterpret_cast<const float2*>(
            chunk.sums + group / kSpanGroups * sum_stride_ + sum_places_[tile]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total.of[i] = fmaf(span.minimum[i / 2], i % 2 == 0 ? inputs.x : inputs.y, total.of[i]);
        }
      }
    }
  }

  template <typename Receive>
  __device__ void add_unit(const FewChunk& chunk, const Receive& receive) {
    constexpr int kUnitSpans = kUnitGroups / kSpanGroups;
    constexpr int kMost = few_sums_at_once(kForm, kTiles, kPanels);
    constexpr int kAtOnce = kMost < kUnitSpans ? kMost : kUnitSpans;
    static_assert(kUnitSpans % kAtOnce == 0);
#pragma unroll
    for (int first = 0; first < kUnitSpans; first += kAtOnce) {
      SpanSums sums[kAtOnce];
      SpanScales scales[kAtOnce][kHalves][kPanels];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int32_t span = (first + i) * kSpanGroups;
        sum_span(chunk, span, kSpanGroups, sums[i]);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
#pragma unroll
          for (int panel = 0; panel < kPanels; ++panel) {
            scales[i][half][panel] = scales_of(chunk, span, panel, half);
          }
        }
      }
      // What others wait for is done as late as it can be.
      if (first == 0) receive();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
#pragma unroll
          for (int panel = 0; panel < kPanels; ++panel) {
            add_span(chunk, (first + i) * kSpanGroups, panel, half, scales[i][half][panel],
                     sums[i]);
          }
        }
      }
    }
  }

  std::int32_t inputs_;
  int lane_;
  std::int32_t panel_bytes_;  // of a stage
  int row_bytes_;
  int sum_stride_;
  int row_offsets_[kTiles];
  int sum_places_[kTiles];
  PanelHeader headers_[kPanels];
  Sums totals_;
};

}  // namespace quire::cuda
