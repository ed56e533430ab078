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

// Barrier `id` of a block, between the warp that is waited for and the one that waits.
__device__ inline void arrive_for_warp(int id) {
  asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory");
}
__device__ inline void wait_for_warp(int id) {
  asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");
}

// A unit of a panel in shared memory, with its rows; the last of a panel may have fewer groups.
struct FewChunk {
  const std::uint8_t* weights = nullptr;
  const std::uint8_t* rows = nullptr;  // [groups][rows][32] bfloat16, as round_fragments() has them
  const float* sums = nullptr;         // [spans][sum_stride]
  std::int32_t first_group = 0;        // of the panel
  std::int32_t groups = 0;
};

// Sums of spans that are multiplied before any is added to the total: what registers have room for.
constexpr int few_sums_at_once(const FragmentForm& form, int tiles) {
  if (tiles == 2 && form.has_minimum) return 2;
  return tiles == 1 && !form.has_minimum && !form.has_halves ? 8 : 4;
}

template <WeightLayout kLayout, int kTiles>
class FewConsumer {
 public:
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr CodeForm kCodes = kForm.codes;
  static constexpr int kUnitGroups = few_unit_groups(kForm, kTiles);
  static constexpr int kPieceGroups = kTiles == 4 ? 1 : 2;

  // What a lane needs to multiply a group.
  struct Group {
    GroupWords<kCodes> words;
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

  __device__ void begin_panel(const std::uint8_t* panel) {
    header_ = load_panel_header<kLayout>(panel, inputs_, lane_);
  }
  __device__ TileSums (&totals())[kTiles] { return totals_; }

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
        add_span(chunk, group, scales_of(chunk, group, half), sums.halves[half]);
      }
    }
  }

  __device__ void load_piece(const FewChunk& chunk, std::int32_t group, Piece& to) const {
#pragma unroll
    for (int i = 0; i < kPieceGroups; ++i) load_group(chunk, group + i, to.groups[i]);
  }
  // Of the other layouts: multiplies a stage, whose first piece is `first`, which becomes that of
  // the stage behind it: next() gives that one, once it is there.
  template <typename Next>
  __device__ void multiply_stage(const FewChunk& chunk, bool is_last, Piece& first,
                                 const Next& next) {
    Piece second;
    std::int32_t whole = chunk.groups;
    if constexpr (kForm.is_dense()) {
      whole = min(whole, inputs_ / static_cast<int>(kGroupInputs) - chunk.first_group);
    }
    const std::int32_t end = whole / (2 * kPieceGroups) * (2 * kPieceGroups);
#pragma unroll 1
    for (std::int32_t group = 0; group < end; group += 2 * kPieceGroups) {
      load_piece(chunk, group + kPieceGroups, second);
      add_piece(first);
      if (group + 2 * kPieceGroups < end) {
        load_piece(chunk, group + 2 * kPieceGroups, first);
      } else if (!is_last) {
        load_piece(next(), 0, first);
      }
      add_piece(second);
    }
    if (is_last) add_rest(chunk, end, whole);
  }

  // Of layouts whose rows have one scale: after the last unit.
  __device__ void end_panel() {
    if constexpr (kForm.span_groups == 0 && !kForm.is_dense()) {
#pragma unroll
      for (TileSums& total : totals_) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total.of[i] *= header_.factor[i / 2];
      }
    }
  }

 private:
  static constexpr int kTerms = fragment_terms(kCodes);
  static constexpr int kHalves = kForm.has_halves ? 2 : 1;
  static constexpr int kSpanGroups = static_cast<int>(kForm.span_groups);

  // Of a span, or of the halves of a group.
  struct SpanSums {
    TileSums halves[kHalves][kTiles];
  };

  __device__ static const std::uint8_t* block_of(const FewChunk& chunk, std::int32_t group) {
    constexpr FragmentForm form = fragment_form(kLayout);
    return chunk.weights + (form.block_offset(group) - form.header_bytes);
  }
  __device__ static const std::uint8_t* group_of(const FewChunk& chunk, std::int32_t group) {
    constexpr FragmentForm form = fragment_form(kLayout);
    return chunk.weights + (form.group_offset(group) - form.header_bytes);
  }

  __device__ void load_rows(const FewChunk& chunk, std::int32_t group, Group& to) const {
    const std::uint8_t* rows = chunk.rows + group * row_bytes_;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      to.x[i] = *reinterpret_cast<const uint4*>(rows + row_offsets_[i]);
    }
  }

  __device__ void multiply_group(const Group& group, const ZeroPairs& zeros, bool begins,
                                 TileSums (&sums)[kTiles], TileSums (&second_half)[kTiles]) const {
    GroupFragments<kCodes> a;
    expand_group<kLayout>(group.words, zeros, lane_, a);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const uint4 x = group.x[i];
      if (begins) {
        multiply(sums[i], a[0], x.x, x.y);
      } else {
        multiply_add(sums[i], a[0], x.x, x.y);
      }
      if constexpr (kTerms == 2) multiply_add(sums[i], a[1], x.x, x.y);
    }
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const uint4 x = group.x[i];
      if constexpr (kForm.has_halves) {
        multiply(second_half[i], a[1], x.z, x.w);
      } else {
        multiply_add(sums[i], a[kTerms], x.z, x.w);
      }
      if constexpr (kTerms == 2) multiply_add(sums[i], a[3], x.z, x.w);
    }
  }

  __device__ void load_group(const FewChunk& chunk, std::int32_t group, Group& to) const {
    to.words.load(group_of(chunk, group), lane_);
    load_rows(chunk, group, to);
  }
  __device__ void add_piece(const Piece& piece) {
#pragma unroll
    for (const Group& group : piece.groups) {
      multiply_group(group, header_.zeros, false, totals_, totals_);
    }
  }

  // The groups of a panel's last stage that are no two pieces.
  __device__ void add_rest(const FewChunk& chunk, std::int32_t first, std::int32_t whole) {
    Group group;
    for (std::int32_t i = first; i < whole; ++i) {
      load_group(chunk, i, group);
      multiply_group(group, header_.zeros, false, totals_, totals_);
    }
    if constexpr (kForm.is_dense()) {
      if (whole == chunk.groups) return;
      const int left = inputs_ - (chunk.first_group + whole) * static_cast<int>(kGroupInputs);
      // Of bfloat16 a line has two inputs.
      const int bytes = (kCodes == CodeForm::kBf16 ? (left + 1) / 2 * 2 : left) * 32;
      group.words.load_front(group_of(chunk, whole), bytes, lane_);
      load_rows(chunk, whole, group);
      multiply_group(group, header_.zeros, false, totals_, totals_);
    }
  }

  __device__ void sum_span(const FewChunk& chunk, std::int32_t group, int count,
                           SpanSums& sums) const {
    ZeroPairs zeros;
    if constexpr (kForm.has_zeros) zeros = load_zeros<kLayout>(block_of(chunk, group), lane_);
#pragma unroll
    for (int i = 0; i < kSpanGroups; ++i) {
      if (i >= count) break;
      Group own;
      own.words.load(group_of(chunk, group + i), lane_);
      load_rows(chunk, group + i, own);
      multiply_group(own, zeros, i == 0, sums.halves[0], sums.halves[kHalves - 1]);
    }
  }

  __device__ SpanScales scales_of(const FewChunk& chunk, std::int32_t group, int half) const {
    return load_span_scales<kLayout>(header_, block_of(chunk, group), group_of(chunk, group),
                                     chunk.first_group + group, half, lane_);
  }

  // Adds a span, or half a group.
  __device__ void add_span(const FewChunk& chunk, std::int32_t group, const SpanScales& span,
                           const TileSums (&sums)[kTiles]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      TileSums& total = totals_[tile];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total.of[i] = fmaf(span.scale[i / 2], sums[tile].of[i], total.of[i]);
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
    constexpr int kAtOnce = few_sums_at_once(kForm, kTiles) / kHalves < kUnitSpans
                                ? few_sums_at_once(kForm, kTiles) / kHalves
                                : kUnitSpans;
#pragma unroll
    for (int first = 0; first < kUnitSpans; first += kAtOnce) {
      SpanSums sums[kAtOnce];
      SpanScales scales[kAtOnce][kHalves];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int32_t span = (first + i) * kSpanGroups;
        sum_span(chunk, span, kSpanGroups, sums[i]);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) scales[i][half] = scales_of(chunk, span, half);
      }
      // What others wait for is done as late as it can be.
      if (first == 0) receive();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          add_span(chunk, (first + i) * kSpanGroups, scales[i][half], sums[i].halves[half]);
        }
      }
    }
  }

  std::int32_t inputs_;
  int lane_;
  int row_bytes_;
  int sum_stride_;
  int row_offsets_[kTiles];
  int sum_places_[kTiles];
  PanelHeader header_;
  TileSums totals_[kTiles];
};

}  // namespace quire::cuda
