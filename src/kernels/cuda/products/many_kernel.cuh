// Products of packed weights with many rows: a persistent kernel in which one warp copies chunks of
// panels and rows into a ring of stages, and warpgroups multiply them with wgmma (such a division
// of work is described by Shah et al. 2024, FlashAttention-3).
//
// Weights are A, 64 outputs a warpgroup: each warp has one panel, whose fragments it makes in
// registers from the bytes in shared memory (panel_fragments.cuh). Rows are B, in shared memory.
// fragment_form.h says in which order sums are added.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/cluster_copies.cuh"
#include "kernels/cuda/products/many_copies.cuh"
#include "kernels/cuda/products/many_epilogue.cuh"
#include "kernels/cuda/products/many_tiles.cuh"
#include "kernels/cuda/products/panel_spans.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace quire::cuda {

template <typename Tile>
class ManyConsumer {
 public:
  __device__ ManyConsumer(const ManyMaps& maps, const ManyArgs& args,
                          const ManyBuffers<Tile>& buffers)
      : maps_(maps),
        args_(args),
        buffers_(buffers),
        warp_(static_cast<std::int32_t>(threadIdx.x / 32)),
        lane_(static_cast<std::int32_t>(threadIdx.x % 32)),
        never_(args.inputs >> 31) {}

  __device__ void compute() {
    const std::int32_t rank = Tile::kBlocks > 1 ? static_cast<std::int32_t>(cluster_rank()) : 0;
    const auto step = static_cast<std::int32_t>(gridDim.x) / Tile::kBlocks;
    for (std::int32_t tile = static_cast<std::int32_t>(blockIdx.x) / Tile::kBlocks;
         tile < args_.order.count(); tile += step) {
      const TileOrder::Place place = args_.order.place(tile);
      const std::int32_t first_panel =
          (place.output_tile * Tile::kBlocks + rank) * Tile::kOutputPanels;
      const std::int32_t panel = first_panel + warp_ % Tile::kOutputPanels;
      const std::uint8_t* panels = args_.panels[warp_ / Tile::kOutputPanels];
      multiply_tile(panels + min(panel, args_.num_panels - 1) * args_.panel_bytes);
      const std::int32_t row = place.row_tile * Tile::kRows;
      if constexpr (!Tile::kIsGated) {
        finish<Tile::kRows / 8, 0>(args_.output.bias, first_panel + warp_ / 4 * 4, row);
      } else if (warp_ < 4) {
        finish_gated<false>(args_.output.bias, first_panel, row);
      } else {
        finish_gated<true>(args_.up_bias, first_panel, row);
      }
    }
    wait_for_stores();
  }

 private:
  static constexpr FragmentForm kForm = Tile::kForm;
  static constexpr WeightLayout kLayout = Tile::kLayout;
  static constexpr int kTerms = fragment_terms(kForm.codes);
  static constexpr bool kHasSpans = kForm.span_groups != 0;
  static constexpr bool kHasHalves = kForm.has_halves;
  static constexpr bool kHasMinimumCodes = kForm.has_minimum_codes();
  static constexpr int kSpanSums = kHasMinimumCodes ? 2 : 1;  // at the same time
  static constexpr int kSums = Tile::kRows / 2;               // of a thread
  // Halves of the rows have sums of their spans by turns: while tensor cores multiply those of one,
  // the other's are added to the totals.
  static constexpr int kParts = kHasSpans && Tile::kRows > 64 ? 2 : 1;
  static constexpr int kPartRows = Tile::kRows / kParts;
  // Groups whose fragments are made at once, and multiplied in one step; halves have steps of their
  // own. Measured: dense weights are faster with short steps.
  static constexpr int kLoadGroups = kForm.is_dense() || Tile::kSpanGroups % 2 != 0 ? 1 : 2;
  static constexpr int kLoads = Tile::kChunkGroups / kLoadGroups;
  static constexpr int kSteps = kHasHalves ? 2 * kLoads : kLoads;  // of a chunk
  // Fragments of one load and of the next take turns with two sets of registers. A chunk with an
  // odd number of loads leaves the turn to the other set.
  static constexpr bool kTurns = kLoads % 2 != 0;
  using FragmentSet = GroupFragments<kForm.codes>[kLoadGroups];

  // Where a step is in a chunk.
  struct Step {
    int group;  // its first
    int half;   // of the group, where halves have sums of their own
    int load;   // whose fragments it multiplies
    __device__ constexpr explicit Step(int index)
        : group((kHasHalves ? index / 2 : index) * kLoadGroups),
          half(kHasHalves ? index % 2 : 0),
          load(group / kLoadGroups) {}
    __device__ constexpr bool begins_span() const {
      return kHasSpans && (kHasHalves || group % Tile::kSpanGroups == 0);
    }
  };

  __device__ void multiply_tile(const std::uint8_t* panel) {
    header_ = load_panel_header<kLayout>(panel, args_.inputs, lane_);
#pragma unroll
    for (float& total : totals_) total = 0.0F;
    const std::int32_t groups = args_.groups();
    barrier_wait(buffers_.full(at_.stage), at_.parity);
    load_words(at_.stage, 0, 0);
    expand_words(0, fragments_[0]);
    constexpr int kChunks = kTurns ? 2 : 1;
    for (std::int32_t first = 0; first < groups; first += kChunks * Tile::kChunkGroups) {
      multiply_chunk<false>(first, groups - first);
      if constexpr (kTurns) {
        const std::int32_t second = first + Tile::kChunkGroups;
        if (second < groups) multiply_chunk<true>(second, groups - second);
      }
    }
    wgmma_wait<0>();
    keep(fragments_[0]);
    keep(fragments_[1]);
    release();
    if constexpr (kForm.ends_with_factor()) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) totals_[i] *= header_.factor[i / 2 % 2];
    }
  }

  // The chunk from group `first` on, where the panel has `groups` more.
  template <bool kIsTurned>
  __device__ void multiply_chunk(std::int32_t first, std::int32_t groups) {
    if (kParts > 1 && groups >= Tile::kChunkGroups) {
      multiply_groups<kIsTurned, true>(first, groups);
    } else {
      multiply_groups<kIsTurned, false>(first, groups);
    }
    last_stage_ = at_.stage;
    at_.advance();
  }

  // While tensor cores multiply a step, the one before it is finished, and the next one's fragments
  // are made; then its span is added to the totals, if it ends one. In a whole chunk with parts,
  // the first part's span is added while the second is multiplied, and the second part's while the
  // first is multiplied with the next step: code without branches, of which the assembler sees what
  // is done when.
  template <bool kIsTurned, bool kTakesTurns>
  __device__ void multiply_groups(std::int32_t first, std::int32_t groups) {
    RingPlace<Tile::kStages> next_at = at_;
    next_at.advance();
#pragma unroll
    for (int index = 0; index < kSteps; ++index) {
      const Step step(index);
      if (!kTakesTurns && step.group >= groups) break;
      FragmentSet& own = fragments_[(step.load + (kIsTurned ? 1 : 0)) % 2];
      FragmentSet& other = fragments_[(step.load + (kIsTurned ? 0 : 1)) % 2];
      const int next = step.group + kLoadGroups;
      const bool loads = (!kHasHalves || step.half == 1) && next < groups;
      const bool ends_span =
          kHasSpans && (kHasHalves || next % Tile::kSpanGroups == 0 || next >= groups);
      if (loads && next < Tile::kChunkGroups) load_words(at_.stage, first, next);
      if (loads && next == Tile::kChunkGroups) {
        barrier_wait(buffers_.full(next_at.stage), next_at.parity);
        load_words(next_at.stage, first + next, 0);
      }
      multiply_step<0>(step, own);
      if (kTakesTurns && index > 0) {
        wgmma_wait<1>();
        if (!kHasHalves || step.half == 0) keep(other);
        if (step.begins_span()) add_span<kParts - 1>();
      }
      if constexpr (kParts > 1) multiply_step<1>(step, own);
      if (!kTakesTurns) {
        wgmma_wait<kParts>();
        if (!kHasHalves || step.half == 0) keep(other);
      }
      if (index == 0 && first > 0) release();
      if (loads) expand_words(first + next, other);
      if (!ends_span) continue;
      load_span(step, first, next > groups ? step.group : next - 1);
      wgmma_wait<kTakesTurns ? 1 : 0>();
      if (!kTakesTurns) keep(own);
      add_span<0>();
      if constexpr (kParts > 1 && !kTakesTurns) add_span<1>();
    }
    if constexpr (kTakesTurns) {
      wgmma_wait<0>();
      keep(fragments_[0]);
      keep(fragments_[1]);
      add_span<kParts - 1>();
    }
  }

  __device__ const std::uint8_t* block_of(std::uint32_t stage, int group) const {
    return buffers_.panel(stage, warp_) + group / Tile::kBlockGroups * kForm.block_bytes;
  }

  // What the fragments of a load are made of, from group `group` on of the chunk in a stage, which
  // begins with the panel's group `first`.
  __device__ void load_words(std::uint32_t stage, std::int32_t first, int group) {
#pragma unroll
    for (int i = 0; i < kLoadGroups; ++i) {
      const std::uint8_t* block = block_of(stage, group + i);
      if constexpr (kForm.is_dense()) {
        // What stands in shared memory behind a panel's end is of other chunks.
        if ((first + group + i + 1) * 32 > args_.inputs) {
          const std::int64_t begin = std::int64_t{first + group + i} * kForm.group_bytes;
          words_[i].load_front(block, static_cast<int>(args_.panel_bytes - begin), lane_);
          continue;
        }
      }
      load_lane_words<kLayout>(block, (group + i) % Tile::kBlockGroups, lane_, words_[i]);
      if constexpr (kForm.has_span_zeros()) zeros_[i] = load_span_zeros<kLayout>(block, lane_);
    }
  }

  // first: the panel's group that the load begins with.
  __device__ void expand_words(std::int32_t first, FragmentSet& fragments) {
#pragma unroll
    for (int i = 0; i < kLoadGroups; ++i) {
      const ZeroPairs zeros = kForm.has_span_zeros() ? zeros_[i] : header_.zeros;
      expand_lane_words<kLayout>(words_[i], zeros, lane_, fragments[i]);
      if (kLoadGroups > 1 && !kForm.is_dense() && (first + i) * 32 >= args_.inputs) {
        for (auto& fragment : fragments[i]) {
          for (std::uint32_t& pair : fragment) pair = 0;
        }
      }
      for (auto& fragment : fragments[i]) keep_registers(fragment);
    }
  }

  // Until tensor cores have read them.
  __device__ void keep(const FragmentSet& fragments) const {
    for (const auto& of_group : fragments) {
      for (const auto& fragment : of_group) keep_fragment(fragment, never_, 0);
    }
  }

  // With the rows of a part.
  template <int kPart>
  __device__ void multiply_step(Step step, const FragmentSet& fragments) {
    const std::uint64_t rows =
        swizzled_operand(shared_address(buffers_.rows(at_.stage)) + kPart * kPartRows * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kLoadGroups; ++i) {
      const int group = step.group + i;
      const std::uint64_t of_group = rows + group / 2 * (Tile::kBoxBytes / 16) + group % 2 * 4;
#pragma unroll
      for (int j = 0; j < 2 * kTerms; ++j) {
        if (kHasHalves && j != step.half) continue;
        const bool adds = !step.begins_span() || i > 0 || (j >= kSpanSums && !kHasHalves);
        const bool is_minimum = kHasMinimumCodes && sum_of_fragment<kLayout>(j) == 1;
        WgmmaBf16<kPartRows>::multiply(is_minimum ? minimum_sums<kPart>() : sums<kPart>(),
                                       fragments[i][j], of_group + j / kTerms * 2, adds);
      }
    }
    wgmma_commit();
  }

  // What a span is added with that a step ends with group `last`.
  __device__ void load_span(Step step, std::int32_t first, int last) {
    const std::uint8_t* block = block_of(at_.stage, last);
    scales_ = load_span_scales<kLayout>(header_, block, last % Tile::kBlockGroups, first + last,
                                        step.half, lane_);
    inputs_ = buffers_.sums(at_.stage) +
              (step.group / Tile::kSpanGroups * Tile::kRows + lane_ % 4 * 2) * sizeof(float);
  }

  // Adds a part's sums, which are done.
  template <int kPart>
  __device__ void add_span() {
    keep_registers(sums<kPart>());
    if constexpr (kHasMinimumCodes) keep_registers(minimum_sums<kPart>());
#pragma unroll
    for (int j = 0; j < kPartRows / 8; ++j) {
      float2 of_rows = {};
      if constexpr (kForm.has_minimum) {
        of_rows = float_pair_at(inputs_ + (kPart * kPartRows / 8 + j) * 32);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float& total = totals_[kPart * kPartRows / 2 + 4 * j + r];
        total = fmaf(scales_.scale[r / 2], sums<kPart>()[4 * j + r], total);
        if constexpr (kHasMinimumCodes) {
          total = fmaf(scales_.minimum[r / 2], minimum_sums<kPart>()[4 * j + r], total);
        }
        if constexpr (kForm.has_minimum) {
          total = fmaf(scales_.minimum[r / 2], r % 2 == 0 ? of_rows.x : of_rows.y, total);
        }
      }
    }
  }

  // Of the stage before, to all who copy into it.
  __device__ void release() {
    __syncwarp();
    if constexpr (Tile::kBlocks > 1) {
      if (lane_ < Tile::kBlocks) barrier_arrive_at(buffers_.empty(last_stage_), lane_);
    } else {
      if (lane_ == 0) barrier_arrive(buffers_.empty(last_stage_));
    }
  }

  // Stores blocks [kFirst, kFirst + kBlocks) of eight rows. first_panel: of the warpgroup.
  template <int kBlocks, int kFirst>
  __device__ void finish(const float* bias, std::int32_t first_panel, std::int32_t row) {
    const ResultPlace place = {.output = (first_panel + warp_ % 4) * 16 + lane_ / 4 * 2,
                               .row = row + lane_ % 4 * 2};
    add_bias(bias, args_.output.outputs, place.output, totals_);
    if (args_.output.is_boxed) {
      if constexpr (!Tile::kIsGated) {
        if (args_.output.accumulate) add_results();
      }
      store_boxes<Tile::kStoreSets, kBlocks, kFirst>(maps_.out, first_panel * 16, row,
                                                     buffers_.results(warp_ / 4), totals_);
    } else {
      store_sums<kBlocks, kFirst>(args_.output, place, totals_);
    }
  }

  // Adds what the product is added to, from the ring.
  __device__ void add_results() {
#pragma unroll
    for (int first = 0; first < Tile::kRows; first += Tile::kBeforeRows) {
      barrier_wait(buffers_.full(at_.stage), at_.parity);
#pragma unroll
      for (int row = 0; row < Tile::kBeforeRows && first + row < Tile::kRows; row += 32) {
        const int box = row / 32 * Tile::kRowBoxes + warp_ / 2;
        add_box<Tile::kRows / 2>(buffers_.rows(at_.stage) + box * Tile::kResultBoxBytes,
                                 (first + row) / 32, totals_);
      }
      last_stage_ = at_.stage;
      at_.advance();
      release();
    }
  }

  // Each of the two warpgroups finishes half of the rows.
  template <bool kIsUp>
  __device__ void finish_gated(const float* bias, std::int32_t first_panel, std::int32_t row) {
    constexpr int kHalf = Tile::kRows / 2;
    const std::int32_t output = (first_panel + warp_ % 4) * 16 + lane_ / 4 * 2;
    add_bias(bias, args_.output.outputs, output, totals_);
    gate_sums<kIsUp>(args_.gate, buffers_.results(0), buffers_.results(1), totals_);
    finish<kHalf / 8, kIsUp ? kHalf / 8 : 0>(nullptr, first_panel, row + (kIsUp ? kHalf : 0));
  }

  template <int kPart>
  __device__ float (&sums())[kPartRows / 2] {
    if constexpr (kHasSpans) {
      return sums_[kPart];
    } else {
      return totals_;
    }
  }
  template <int kPart>
  __device__ float (&minimum_sums())[kPartRows / 2] {
    if constexpr (kHasMinimumCodes) {
      return minimum_sums_[kPart];
    } else {
      return sums<kPart>();
    }
  }

  const ManyMaps& maps_;
  const ManyArgs& args_;
  ManyBuffers<Tile> buffers_;
  std::int32_t warp_;
  std::int32_t lane_;
  PanelHeader header_;
  RingPlace<Tile::kStages> at_;
  std::uint32_t last_stage_ = 0;
  std::int32_t never_;  // zero (keep_fragment())
  LaneWords<kLayout> words_[kLoadGroups];
  ZeroPairs zeros_[kLoadGroups];
  FragmentSet fragments_[2] = {};
  float totals_[kSums];
  // Of a span.
  float sums_[kParts][kHasSpans ? kPartRows / 2 : 1];
  float minimum_sums_[kParts][kHasMinimumCodes ? kPartRows / 2 : 1];
  SpanScales scales_;
  const std::uint8_t* inputs_ = nullptr;  // sums of them
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    many_rows_product(const __grid_constant__ ManyMaps maps,
                      const __grid_constant__ ManyArgs args) {
  extern __shared__ __align__(1024) std::uint8_t many_shared[];
  const ManyBuffers<Tile> buffers = {many_shared};
  if (threadIdx.x == 0) {
    for (std::uint32_t stage = 0; stage < Tile::kStages; ++stage) {
      barrier_init(buffers.full(stage), 1);
      barrier_init(buffers.empty(stage), 4 * Tile::kWarpgroups * Tile::kBlocks);
    }
    fence_barrier_init();
  }
  if constexpr (Tile::kBlocks > 1) {
    synchronize_cluster();
  } else {
    __syncthreads();
  }
  let_next_start();
  if (threadIdx.x >= 128 * Tile::kWarpgroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::kCopyRegisters));
    if (threadIdx.x < 128 * Tile::kWarpgroups + 32) ManyProducer<Tile>(maps, args, buffers).copy();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kRegisters));
    wait_for_previous();
    ManyConsumer<Tile>(maps, args, buffers).compute();
  }
  // What one block of a cluster copies to another, or tells it, must find it there.
  if constexpr (Tile::kBlocks > 1) synchronize_cluster();
}

}  // namespace quire::cuda
