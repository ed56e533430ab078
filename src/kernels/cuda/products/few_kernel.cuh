// The kernel of products_few.h: one warp copies panels and rows into a ring of stages in shared
// memory, the others multiply them. It is bound by the memory of weights, so that copies of many
// stages are on their way at any time, those of the next panels among them.
#pragma once

#include <cstdint>

#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/few_args.h"
#include "kernels/cuda/products/few_consumer.cuh"
#include "kernels/cuda/products/few_ring.cuh"
#include "kernels/cuda/products/rounding.cuh"

namespace quire::cuda {

// Which panels, rows and stages are a warp's.
struct FewRole {
  int panel = 0;    // of those at once
  int item = 0;     // of those at once
  int of_item = 0;  // of a gated product's two panels
  int split = 0;
  int member = 0;  // of the team
};

__device__ inline FewRole few_role(const FewArgs& args, int warp) {
  const FewPlan& plan = args.plan;
  const int panels = args.is_gated ? 2 : 1;
  const int panel = warp / plan.team / plan.splits;
  return {.panel = panel,
          .item = panel / panels,
          .of_item = panel % panels,
          .split = warp / plan.team % plan.splits,
          .member = warp % plan.team};
}

// Where a block's own rows lie.
__device__ inline std::uint8_t* few_own_rows(const FewArgs& args, const FewShared& shared) {
  return shared.stages + args.plan.ring_stages * args.plan.stage_bytes + args.plan.rows_offset;
}

// Of a block's own rows.
template <WeightLayout kLayout>
__device__ std::int32_t few_stage_sums_bytes(const FewArgs& args) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  constexpr auto kSpanGroups = static_cast<std::int32_t>(kForm.has_minimum ? kForm.span_groups : 1);
  return args.plan.stage_groups / kSpanGroups * static_cast<std::int32_t>(sum_stride(args.rows)) *
         4;
}

// Rounds the block's own rows, by `warps` warps.
template <WeightLayout kLayout>
__device__ void round_own_rows(const FewArgs& args, const FewShared& shared, int warp, int warps,
                               int lane) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  std::uint8_t* const rows = few_own_rows(args, shared);
  InputSums sums;
  if constexpr (kForm.has_minimum) {
    sums = {
        .sum_inputs = kForm.sum_inputs(),
        .values = reinterpret_cast<float*>(rows + args.plan.sums_offset - args.plan.rows_offset)};
  }
  const bool aligned = args.input_order == nullptr && args.own_x_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(args.own_x) % sizeof(float4) == 0;
  const RoundArgs round = {args.own_x,
                           args.own_x_stride,
                           args.rows,
                           args.inputs,
                           args.input_order,
                           reinterpret_cast<std::uint16_t*>(rows),
                           sums,
                           aligned};
  constexpr InputPlaces kPlaces = kForm.places();
  round_pieces<kPlaces, true>(round, warp, warps, lane);
}

// One of the warps that multiply.
template <WeightLayout kLayout, int kTiles>
class FewWorker {
 public:
  __device__ FewWorker(const FewArgs& args, const FewShared& shared, int warp, int lane)
      : args_(args),
        shared_(shared),
        warp_(warp),
        lane_(lane),
        role_(few_role(args, warp)),
        team_(args.plan.team),
        before_(role_.member == 0 ? warp + team_ - 1 : warp - 1),
        panel_stages_(args.plan.panel_stages),
        stage_groups_(args.plan.stage_groups),
        groups_(static_cast<std::int32_t>((args.inputs + kGroupInputs - 1) / kGroupInputs)),
        chunk_offset_(role_.panel * args.plan.chunk_bytes),
        rows_offset_(args.plan.rows_offset),
        sums_offset_(args.plan.sums_offset),
        has_own_rows_(args.plan.has_own_rows),
        own_rows_(few_own_rows(args, shared)),
        own_sums_(own_rows_ + args.plan.sums_offset - args.plan.rows_offset),
        stage_sums_bytes_(few_stage_sums_bytes<kLayout>(args)),
        consumer_(args, role_.split * kTiles, lane) {}

  // Stages of all panels count on: every `team`th one is this warp's.
  __device__ void multiply_stages() {
    const std::int32_t items = few_items(args_);
    const std::int32_t at_once = args_.plan.items_at_once;
    const std::int32_t rounds = (items + at_once - 1) / at_once;
    const std::int32_t stages = rounds * panel_stages_;
    FewRing ring(args_.plan, shared_);
    ring.advance(role_.member);
    std::int32_t item = role_.item;    // of the block
    std::int32_t step = role_.member;  // of the panel
    bool is_new = true;
    ItemPanel panel;
    for (std::int32_t index = role_.member; index < stages; index += team_, step += team_) {
      for (; step >= panel_stages_; step -= panel_stages_) {
        item += at_once;
        is_new = true;
      }
      const bool active = item < items;
      if (is_new && active) {
        panel = few_panel(args_, few_item(item), role_.of_item);
        consumer_.begin_panel(panel.bytes);
        is_new = false;
      }
      barrier_wait(ring.full(), ring.parity);
      const auto receive = [&] { receive_totals(index, step); };
      if (active) {
        consumer_.multiply_chunk(chunk_of(ring.stage, step), receive);
      } else {
        receive();
      }
      __syncwarp();
      if (lane_ == 0) arrive_at(ring.empty());
      const bool is_last = step + 1 == panel_stages_;
      if (team_ > 1 && index + 1 < stages) {
        if (!is_last) share(consumer_.totals());
        arrive_for_warp(kHandOver + warp_);
      }
      if (is_last && active) finish(panel);
      ring.advance(team_);
    }
  }

 private:
  // Barriers of the block: to hand over the totals of each warp, and to join pairs of warps.
  static constexpr int kHandOver = 1;
  static constexpr int kJoin = kHandOver + kMaxFewWarps;

  __device__ FewChunk chunk_of(const std::uint8_t* stage, std::int32_t step) const {
    const std::int32_t first = step * stage_groups_;
    return {.weights = stage + chunk_offset_,
            .rows = has_own_rows_ ? own_rows_ + first * args_.rows * 64 : stage + rows_offset_,
            .sums = reinterpret_cast<const float*>(
                has_own_rows_ ? own_sums_ + step * stage_sums_bytes_ : stage + sums_offset_),
            .first_group = first,
            .groups = min(stage_groups_, groups_ - first)};
  }

  // The totals up to stage `index`, which is `step` of its panels. What comes before a panel's
  // first stage is waited for as well, so that no warp hands over twice what is taken once.
  __device__ void receive_totals(std::int32_t index, std::int32_t step) {
    if (team_ > 1 && index > 0) wait_for_warp(kHandOver + before_);
    if (step > 0) {
      if (team_ > 1) read_shared(before_, consumer_.totals());
      return;
    }
#pragma unroll
    for (TileSums& total : consumer_.totals()) total = {};
  }

  __device__ void share(const TileSums (&sums)[kTiles]) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      shared_.exchange(warp_, kTiles)[32 * i + lane_] = {sums[i].of[0], sums[i].of[1],
                                                         sums[i].of[2], sums[i].of[3]};
    }
  }
  __device__ void read_shared(int warp, TileSums (&sums)[kTiles]) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const float4 four = shared_.exchange(warp, kTiles)[32 * i + lane_];
      sums[i] = {{four.x, four.y, four.z, four.w}};
    }
  }

  // Results are stored from shared memory, where those of a row lie side by side.
  __device__ void finish(const ItemPanel& panel) {
    const FewPlan& plan = args_.plan;
    const int join = kJoin + (role_.item * plan.splits + role_.split) * plan.team + role_.member;
    consumer_.end_panel();
    share(consumer_.totals());
    if (args_.is_gated) wait_for_warp(join);
    __syncwarp();
    if (role_.of_item == 0) {
      const float* sums = reinterpret_cast<const float*>(shared_.exchange(warp_, kTiles));
      const float* others =
          reinterpret_cast<const float*>(shared_.exchange(warp_ + plan.splits * plan.team, kTiles));
#pragma unroll 1
      for (int i = lane_; i < kTiles * 128; i += 32) {
        const int column = i % 16;
        const int row = i / 16 % 8;
        const int at = i / 128 * 128 + (column / 2 * 4 + row / 2) * 4 + column % 2 * 2 + row % 2;
        store(panel, role_.split * kTiles * 8 + i / 16, column, sums[at], others + at);
      }
    }
    if (args_.is_gated) wait_for_warp(join);
    __syncwarp();
  }

  // `other`: the sum of a gated product's other weight.
  __device__ void store(const ItemPanel& panel, int row, int column, float sum,
                        const float* other) const {
    const FewPart& part = *panel.part;
    const int output = panel.index * 16 + column;
    if (row >= args_.rows || output >= part.outputs) return;
    if (part.bias != nullptr) sum += part.bias[output];
    if (args_.is_gated) {
      float up = *other;
      if (args_.parts[1].bias != nullptr) up += args_.parts[1].bias[output];
      sum = args_.gate(sum, up);
    }
    float* const out = part.out + row * part.out_stride + output;
    *out = part.accumulate ? sum + *out : sum;
  }

  const FewArgs& args_;
  FewShared shared_;
  int warp_;
  int lane_;
  FewRole role_;
  std::int32_t team_;
  int before_;  // the warp that has the stage before
  std::int32_t panel_stages_;
  std::int32_t stage_groups_;
  std::int32_t groups_;  // of a panel
  std::int32_t chunk_offset_;
  std::int32_t rows_offset_;
  std::int32_t sums_offset_;
  bool has_own_rows_;
  const std::uint8_t* own_rows_;
  const std::uint8_t* own_sums_;
  std::int32_t stage_sums_bytes_;
  FewConsumer<kLayout, kTiles> consumer_;
};

// A block has one warp that copies, kMaxFewWarps of which plan.workers multiply, and
// plan.shared_bytes.
template <WeightLayout kLayout, int kTiles>
__global__ void __launch_bounds__(32 * (kMaxFewWarps + 1), kTiles < 4 ? 2 : 1)
    few_kernel(const __grid_constant__ FewArgs args) {
  extern __shared__ __align__(128) std::uint8_t few_memory[];
  const FewShared shared = {few_memory, few_memory + kFewBarrierBytes + few_exchange_bytes(kTiles)};
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  let_next_start();
  if (threadIdx.x == 0) {
    for (std::int32_t stage = 0; stage < args.plan.ring_stages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage),
                   static_cast<std::uint32_t>(args.plan.workers / args.plan.team));
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (warp == kMaxFewWarps) {
    copy_few_stages<kLayout>(args, shared, lane);
    return;
  }
  wait_for_previous();
  if (args.plan.has_own_rows) {
    round_own_rows<kLayout>(args, shared, warp, kMaxFewWarps, lane);
    asm volatile("bar.sync 15, %0;" ::"n"(32 * kMaxFewWarps) : "memory");
  }
  if (warp < args.plan.workers) {
    FewWorker<kLayout, kTiles>(args, shared, warp, lane).multiply_stages();
  }
}

}  // namespace quire::cuda
