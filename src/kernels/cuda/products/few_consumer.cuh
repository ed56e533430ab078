// What a multiplying warp of products_few.h does with the stages of its panels.
//
// Sums of spans of inputs begin with zero, so that the warps of a team compute those of different
// stages at the same time. Only to the total are they added in order: a warp gets it from the one
// before it, adds the sums of its stage, and hands it on.
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

// A chunk of a panel in shared memory, with its rows.
struct FewChunk {
  const std::uint8_t* weights = nullptr;
  const std::uint8_t* rows = nullptr;  // [groups][rows][32] bfloat16, as round_fragments() has them
  const float* sums = nullptr;         // [spans][sum_stride]
  std::int32_t first_group = 0;        // of the panel
  std::int32_t groups = 0;
};

// Sums of spans that are multiplied before any is added to the total: what registers have room for.
constexpr int few_sums_at_once(int tiles) { return tiles == 1 ? 8 : 4; }

template <WeightLayout kLayout, int kTiles>
class FewConsumer {
 public:
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr CodeForm kCodes = kForm.codes;
  static constexpr int kUnitGroups = few_unit_groups(kForm, kTiles);

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

  // Multiplies a chunk. `receive` is called before the first sum is added to the totals: it sets
  // them.
  template <typename Receive>
  __device__ void multiply_chunk(const FewChunk& chunk, const Receive& receive) {
    if constexpr (kForm.span_groups == 0) {
      receive();
      add_to_totals(chunk);
    } else {
      std::int32_t group = 0;
      bool received = false;
      const auto receive_once = [&] {
        if (!received) receive();
        received = true;
      };
      for (; group + kUnitGroups <= chunk.groups; group += kUnitGroups) {
        add_unit(chunk, group, receive_once);
      }
      for (; group < chunk.groups; group += kSpanGroups) {
        SpanSums sums;
        const std::int32_t offset = place_of(group);
        sum_span(chunk, group - offset, offset, min(kSpanGroups, chunk.groups - group), sums);
        receive_once();
        add_span(chunk, group - offset, offset, sums);
      }
    }
  }

  // Of layouts whose rows have one scale, or a divisor: after the last chunk.
  __device__ void end_panel() {
    if constexpr (kForm.ends_with_factor()) {
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
  static constexpr int kSums = kForm.num_sums();
  static constexpr int kSpanGroups = static_cast<int>(kForm.span_groups);

  // Of a span, or of the halves of a group; the second ones may be of codes of minima.
  struct SpanSums {
    TileSums of[kSums][kTiles];
  };

  __device__ static const std::uint8_t* block_of(const FewChunk& chunk, std::int32_t group) {
    constexpr FragmentForm form = fragment_form(kLayout);
    return chunk.weights + (form.block_offset(group) - form.header_bytes);
  }
  // From a block to that of a group so many groups behind its first.
  __device__ static int block_offset_of(std::int32_t groups) {
    return groups / static_cast<int>(kForm.block_groups) * static_cast<int>(kForm.block_bytes);
  }
  // Of a group in its block.
  __device__ static int place_of(std::int32_t group) {
    return group % static_cast<int>(kForm.block_groups);
  }

  // What a lane needs to multiply a group.
  struct Group {
    LaneWords<kLayout> words;
    uint4 x[kTiles];
  };

  __device__ void load_rows(const FewChunk& chunk, std::int32_t group, Group& to) const {
    const std::uint8_t* rows = chunk.rows + group * row_bytes_;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      to.x[i] = *reinterpret_cast<const uint4*>(rows + row_offsets_[i]);
    }
  }

  // Adds to one sum or to two; with `begins`, these are new.
  __device__ void multiply_group(const Group& group, const ZeroPairs& zeros, bool begins,
                                 TileSums (&first)[kTiles], TileSums (&second)[kTiles]) const {
    GroupFragments<kCodes> a;
    expand_lane_words<kLayout>(group.words, zeros, lane_, a);
#pragma unroll
    for (int index = 0; index < 2 * kTerms; ++index) {
      const bool is_second = sum_of_fragment<kLayout>(index) == 1;
      const bool is_new = begins && index < kSums;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const uint4 x = group.x[i];
        TileSums& sums = is_second ? second[i] : first[i];
        const std::uint32_t b0 = index < kTerms ? x.x : x.z;
        const std::uint32_t b1 = index < kTerms ? x.y : x.w;
        if (is_new) {
          multiply(sums, a[index], b0, b1);
        } else {
          multiply_add(sums, a[index], b0, b1);
        }
      }
    }
  }

  // Dense layouts, and those whose rows have one scale. A group is loaded while the one before it
  // is multiplied.
  __device__ void add_to_totals(const FewChunk& chunk) {
    std::int32_t whole = chunk.groups;
    if constexpr (kForm.is_dense()) {
      whole = min(whole, inputs_ / static_cast<int>(kGroupInputs) - chunk.first_group);
    }
    const auto load = [&](std::int32_t group, Group& to) {
      load_lane_words<kLayout>(block_of(chunk, group), place_of(group), lane_, to.words);
      load_rows(chunk, group, to);
    };
    Group groups[2];
    if (whole > 0) load(0, groups[0]);
#pragma unroll 1
    for (std::int32_t group = 0; group < whole; group += 2) {
      if (group + 1 < whole) load(group + 1, groups[1]);
      multiply_group(groups[0], header_.zeros, false, totals_, totals_);
      if (group + 1 >= whole) break;
      if (group + 2 < whole) load(group + 2, groups[0]);
      multiply_group(groups[1], header_.zeros, false, totals_, totals_);
    }
    if constexpr (kForm.is_dense()) {
      if (whole == chunk.groups) return;
      const int left = inputs_ - (chunk.first_group + whole) * static_cast<int>(kGroupInputs);
      // Of bfloat16 a line has two inputs.
      const int bytes = (kCodes == CodeForm::kBf16 ? (left + 1) / 2 * 2 : left) * 32;
      groups[0].words.load_front(block_of(chunk, whole), bytes, lane_);
      load_rows(chunk, whole, groups[0]);
      multiply_group(groups[0], header_.zeros, false, totals_, totals_);
    }
  }

  // Of `count` groups from group `offset` on behind group `group`, with which a block begins.
  __device__ void sum_span(const FewChunk& chunk, std::int32_t group, std::int32_t offset,
                           std::int32_t count, SpanSums& sums) const {
    const std::uint8_t* const block = block_of(chunk, group) + block_offset_of(offset);
    ZeroPairs zeros;
    if constexpr (kForm.has_zeros) zeros = load_zeros<kLayout>(block, lane_);
#pragma unroll
    for (int i = 0; i < kSpanGroups; ++i) {
      if (i >= count) break;
      Group own;
      load_lane_words<kLayout>(block, place_of(offset) + i, lane_, own.words);
      load_rows(chunk, group + offset + i, own);
      multiply_group(own, zeros, i == 0, sums.of[0], sums.of[kSums - 1]);
    }
  }

  __device__ void add_span(const FewChunk& chunk, std::int32_t group, std::int32_t offset,
                           const SpanSums& sums) {
    const std::uint8_t* const block = block_of(chunk, group) + block_offset_of(offset);
    const std::int32_t first = group + offset;  // of the span
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const SpanScales span = load_span_scales<kLayout>(header_, block, place_of(offset),
                                                        chunk.first_group + first, half, lane_);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        TileSums& total = totals_[tile];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total.of[i] = fmaf(span.scale[i / 2], sums.of[half][tile].of[i], total.of[i]);
          if constexpr (kForm.has_minimum_codes()) {
            total.of[i] = fmaf(span.minimum[i / 2], sums.of[1][tile].of[i], total.of[i]);
          }
        }
        if constexpr (kForm.has_minimum) {
          const float2 inputs = *reinterpret_cast<const float2*>(
              chunk.sums + first / kSpanGroups * sum_stride_ + sum_places_[tile]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            total.of[i] = fmaf(span.minimum[i / 2], i % 2 == 0 ? inputs.x : inputs.y, total.of[i]);
          }
        }
      }
    }
  }

  template <typename Receive>
  __device__ void add_unit(const FewChunk& chunk, std::int32_t group, const Receive& receive) {
    constexpr int kUnitSpans = kUnitGroups / kSpanGroups;
    constexpr int kAtOnce = few_sums_at_once(kTiles) / kSums < kUnitSpans
                                ? few_sums_at_once(kTiles) / kSums
                                : kUnitSpans;
#pragma unroll
    for (int first = 0; first < kUnitSpans; first += kAtOnce) {
      SpanSums sums[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        sum_span(chunk, group, (first + i) * kSpanGroups, kSpanGroups, sums[i]);
      }
      receive();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        add_span(chunk, group, (first + i) * kSpanGroups, sums[i]);
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
