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

// Which items, rows and units are a warp's.
struct FewRole {
  int item = 0;  // of those at once
  int split = 0;
  int member = 0;  // of the team
};

__device__ inline FewRole few_role(const FewPlan& plan, int warp) {
  return {.item = warp / plan.team / plan.splits,
          .split = warp / plan.team % plan.splits,
          .member = warp % plan.team};
}

// Barrier `id` of a block, between the warp that is waited for and the one that waits.
__device__ inline void arrive_for_warp(int id) {
  asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory");
}
__device__ inline void wait_for_warp(int id) {
  asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");
}

// Where a block's own rows lie.
__device__ inline std::uint8_t* few_own_rows(const FewArgs& args, const FewShared& shared) {
  return shared.stages + args.plan.ring_stages * args.plan.stage_bytes + args.plan.rows_offset;
}

// Of a block's own rows.
template <WeightLayout kLayout>
__device__ std::int32_t few_unit_sums_bytes(const FewArgs& args) {
  constexpr FragmentForm kForm = fragment_form(kLayout);
  constexpr auto kSpanGroups = static_cast<std::int32_t>(kForm.has_minimum ? kForm.span_groups : 1);
  return args.plan.unit_groups / kSpanGroups * static_cast<std::int32_t>(sum_stride(args.rows)) * 4;
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
                           static_cast<std::int32_t>(args.inputs),
                           args.input_order,
                           reinterpret_cast<std::uint16_t*>(rows),
                           sums,
                           aligned};
  constexpr InputPlaces kPlaces = kForm.places();
  round_all<kPlaces, true>(round, warp, warps, lane);
}

// One of the warps that multiply.
template <WeightLayout kLayout, int kTiles, int kPanels>
class FewWorker {
 public:
  __device__ FewWorker(const FewArgs& args, const FewShared& shared, int warp, int lane)
      : args_(args),
        shared_(shared),
        warp_(warp),
        lane_(lane),
        role_(few_role(args.plan, warp)),
        team_(args.plan.team),
        before_(role_.member == 0 ? warp + team_ - 1 : warp - 1),
        stage_units_(args.plan.stage_units),
        panel_units_(args.plan.panel_stages * args.plan.stage_units),
        unit_groups_(args.plan.unit_groups),
        unit_bytes_(args.plan.chunk_bytes / args.plan.stage_units),
        row_bytes_(args.rows * 64),
        groups_(static_cast<std::int32_t>((args.inputs + kGroupInputs - 1) / kGroupInputs)),
        chunk_offset_(role_.item * kPanels * args.plan.chunk_bytes),
        rows_offset_(in_register(args.plan.rows_offset)),
        sums_offset_(args.plan.sums_offset),
        has_own_rows_(args.plan.has_own_rows),
        own_rows_(few_own_rows(args, shared)),
        own_sums_(own_rows_ + args.plan.sums_offset - args.plan.rows_offset),
        unit_sums_bytes_(few_unit_sums_bytes<kLayout>(args)),
        consumer_(args, role_.split * kTiles, lane) {}

  // What can be fetched before the rows are there.
  __device__ void begin() {
    if (role_.item < few_items(args_)) begin_item(role_.item);
  }

  __device__ void multiply() {
    if constexpr (Consumer::kForm.span_groups == 0) {
      multiply_chains();
    } else {
      multiply_units();
    }
  }

 private:
  using Consumer = FewConsumer<kLayout, kTiles, kPanels>;
  using Sums = typename Consumer::Sums;
  // What is there already is loaded while the last products are computed, where registers have
  // room.
  static constexpr bool kLoadsEarly = kTiles * kPanels == 1;

  static constexpr std::int32_t kUnitBytes =
      static_cast<std::int32_t>(Consumer::kUnitGroups * Consumer::kForm.group_bytes);  // of a chain
  static constexpr int kHandOver = 1;  // the first barrier to hand over the totals of each warp

  __device__ void begin_item(std::int32_t item) {
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      panels_[i] = few_panel(args_, few_item(item), i);
      // One that is not there is multiplied as the first is, and not stored.
      consumer_.begin_panel(i, panels_[panels_[i].bytes != nullptr ? i : 0].bytes);
    }
    item_ = item;
  }

  // Of layouts with one sum: all units of an item are this warp's. It waits for the tensor core
  // most of the time, and does meanwhile what the next unit needs.
  __device__ void multiply_chains() {
    constexpr int kUnitGroups = Consumer::kUnitGroups;
    const std::int32_t items = few_items(args_);
    const std::int32_t at_once = args_.plan.items_at_once;
    const std::int32_t stage_units = args_.plan.stage_groups / kUnitGroups;
    const std::int32_t units = static_cast<std::int32_t>(args_.inputs) / (32 * kUnitGroups);
    FewRing ring(args_.plan, shared_);
    for (std::int32_t item = role_.item, first = 0; first < items;
         item += at_once, first += at_once) {
      if (item >= items) {  // of a round that has fewer
        for (std::int32_t step = 0; step < args_.plan.panel_stages; ++step) {
          barrier_wait(ring.full(), ring.parity);
          leave(ring);
        }
        continue;
      }
      if (item != item_) begin_item(item);
      if constexpr (kLoadsEarly) load_old();
      clear_totals();
      barrier_wait(ring.full(), ring.parity);
      FewChunk chunk = chunk_of(ring.stage, 0, 0);
      std::int32_t left = stage_units;  // of the stage
      typename Consumer::Piece pieces[2];
      if (units > 0) consumer_.load_piece(chunk, 0, pieces[0]);
#pragma unroll 1
      for (std::int32_t unit = 0; unit < units; ++unit) {
        consumer_.load_piece(chunk, Consumer::kPieceGroups, pieces[1]);
        consumer_.add_piece(pieces[0]);
        const bool ends_stage = left == 1;
        const bool is_last = unit + 1 == units;
        FewRing next = ring;
        next.advance();
        const std::uint32_t empty = ring.empty();
        chunk.weights = ends_stage ? next.stage + chunk_offset_ : chunk.weights + kUnitBytes;
        chunk.rows = ends_stage && !has_own_rows_ ? next.stage + rows_offset_
                                                  : chunk.rows + kUnitGroups * row_bytes_;
        left = ends_stage ? stage_units : left - 1;
        if (ends_stage) ring = next;
        if (!is_last) {
          if (ends_stage) barrier_wait(ring.full(), ring.parity);
          consumer_.load_piece(chunk, 0, pieces[0]);
        }
        consumer_.add_piece(pieces[1]);
        __syncwarp();
        if (ends_stage && lane_ == 0) arrive_at(empty);
      }
      chunk.first_group = units * kUnitGroups;
      chunk.groups = groups_ - chunk.first_group;
      if (chunk.groups > 0) {
        barrier_wait(ring.full(), ring.parity);
        consumer_.add_rest(chunk);
      }
      if (left < stage_units || chunk.groups > 0) leave(ring);
      finish();
    }
  }

  // Lets the ring's stage be filled again, and goes to the next.
  __device__ void leave(FewRing& ring) const {
    __syncwarp();
    if (lane_ == 0) arrive_at(ring.empty());
    ring.advance();
  }

  // Of layouts with spans. Units of all panels count on: every `team`th one is this warp's.
  __device__ void multiply_units() {
    const std::int32_t items = few_items(args_);
    const std::int32_t at_once = args_.plan.items_at_once;
    const std::int32_t rounds = (items + at_once - 1) / at_once;
    const std::int32_t units = rounds * panel_units_;
    FewRing ring(args_.plan, shared_);
    std::int32_t item = role_.item;    // of the block
    std::int32_t step = role_.member;  // of the panel, in units
    std::int32_t in_stage = role_.member;
    for (std::int32_t index = role_.member; index < units; index += team_) {
      for (; step >= panel_units_; step -= panel_units_) item += at_once;
      for (; in_stage >= stage_units_; in_stage -= stage_units_) ring.advance();
      const bool active = item < items;
      if (active && item != item_) begin_item(item);
      const bool is_last = step + 1 == panel_units_;
      if (kLoadsEarly && active && is_last) load_old();
      barrier_wait(ring.full(), ring.parity);
      const auto receive = [&] { receive_totals(index, step); };
      const FewChunk chunk = chunk_of(ring.stage, in_stage, step);
      if (active && chunk.groups > 0) {
        consumer_.multiply_unit(chunk, receive);
      } else {
        receive();
      }
      if (team_ > 1 && index + 1 < units) {
        if (!is_last) share(consumer_.totals());
        arrive_for_warp(kHandOver + warp_);
      }
      __syncwarp();
      if (lane_ == 0) arrive_at(ring.empty());
      if (is_last && active) finish();
      step += team_;
      in_stage += team_;
    }
  }

  __device__ FewChunk chunk_of(const std::uint8_t* stage, std::int32_t in_stage,
                               std::int32_t step) const {
    const std::int32_t first = step * unit_groups_;  // of the panel
    const std::int32_t before = in_stage * unit_groups_;
    return {.weights = stage + chunk_offset_ + in_stage * unit_bytes_,
            .rows = has_own_rows_ ? own_rows_ + first * row_bytes_
                                  : stage + rows_offset_ + before * row_bytes_,
            .sums = reinterpret_cast<const float*>(
                has_own_rows_ ? own_sums_ + step * unit_sums_bytes_
                              : stage + sums_offset_ + in_stage * unit_sums_bytes_),
            .first_group = first,
            .groups = min(unit_groups_, groups_ - first)};
  }

  // The totals up to unit `index`, which is `step` of its panels. What comes before a panel's first
  // unit is waited for as well, so that no warp hands over twice what is taken once.
  __device__ void receive_totals(std::int32_t index, std::int32_t step) {
    if (team_ > 1 && index > 0) wait_for_warp(kHandOver + before_);
    if (step > 0) {
      if (team_ > 1) read_shared(before_, consumer_.totals());
      return;
    }
    clear_totals();
  }

  __device__ void clear_totals() {
#pragma unroll
    for (auto& of_panel : consumer_.totals()) {
#pragma unroll
      for (TileSums& total : of_panel) total = {};
    }
  }

  __device__ void share(const Sums& sums) {
#pragma unroll
    for (int i = 0; i < kPanels * kTiles; ++i) {
      const TileSums& sum = sums[i / kTiles][i % kTiles];
      shared_.exchange(warp_, kPanels * kTiles)[32 * i + lane_] = {sum.of[0], sum.of[1], sum.of[2],
                                                                   sum.of[3]};
    }
  }
  __device__ void read_shared(int warp, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kPanels * kTiles; ++i) {
      const float4 four = shared_.exchange(warp, kPanels * kTiles)[32 * i + lane_];
      sums[i / kTiles][i % kTiles] = {{four.x, four.y, four.z, four.w}};
    }
  }

  // Where the lane's sum `i` of a tile goes; null: nowhere.
  __device__ float* place_of(const ItemPanel& panel, int tile, int i) const {
    const FewPart& part = args_.parts[panel.part];
    const int row = (role_.split * kTiles + tile) * 8 + lane_ % 4 * 2 + i % 2;
    const int output = panel.index * 16 + lane_ / 4 * 2 + i / 2;
    if (panel.bytes == nullptr || row >= args_.rows || output >= part.outputs) return nullptr;
    return part.out + row * part.out_stride + output;
  }

  // What results are added to.
  __device__ void load_old() {
#pragma unroll
    for (int index = 0; index < kPanels; ++index) {
      if (args_.is_gated || !args_.parts[panels_[index].part].accumulate) continue;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const at = place_of(panels_[index], tile, i);
          old_[index][tile].of[i] = at != nullptr ? *at : 0.0F;
        }
      }
    }
  }

  __device__ void finish() {
    consumer_.end_panel();
    Sums& sums = consumer_.totals();
#pragma unroll
    for (int i = 0; i < kPanels; ++i) add_bias(panels_[i], sums[i]);
    if constexpr (!kLoadsEarly) load_old();
    if constexpr (kPanels == 2) {
      if (args_.is_gated) {
        store_gated(sums);
        return;
      }
    }
#pragma unroll
    for (int index = 0; index < kPanels; ++index) {
      const bool accumulate = args_.parts[panels_[index].part].accumulate;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* const to = place_of(panels_[index], tile, i);
          const float sum = sums[index][tile].of[i];
          if (to != nullptr) *to = accumulate ? sum + old_[index][tile].of[i] : sum;
        }
      }
    }
  }

  __device__ void add_bias(const ItemPanel& panel, TileSums (&sums)[kTiles]) const {
    const FewPart& part = args_.parts[panel.part];
    if (part.bias == nullptr) return;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int output = panel.index * 16 + lane_ / 4 * 2 + row;
      if (output >= part.outputs) continue;
      const float bias = part.bias[output];
#pragma unroll
      for (TileSums& sum : sums) {
        sum.of[2 * row] += bias;
        sum.of[2 * row + 1] += bias;
      }
    }
  }

  __device__ void store_gated(const Sums& sums) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float* const to = place_of(panels_[0], tile, i);
        if (to != nullptr) *to = args_.gate(sums[0][tile].of[i], sums[kPanels - 1][tile].of[i]);
      }
    }
  }

  const FewArgs& args_;
  FewShared shared_;
  int warp_;
  int lane_;
  FewRole role_;
  std::int32_t team_;
  int before_;  // the warp that has the unit before
  std::int32_t stage_units_;
  std::int32_t panel_units_;  // the last stage may have fewer than it seems
  std::int32_t unit_groups_;
  std::int32_t unit_bytes_;
  std::int32_t row_bytes_;
  std::int32_t groups_;  // of a panel
  std::int32_t chunk_offset_;
  std::int32_t rows_offset_;
  std::int32_t sums_offset_;
  bool has_own_rows_;
  const std::uint8_t* own_rows_;
  const std::uint8_t* own_sums_;
  std::int32_t unit_sums_bytes_;
  Consumer consumer_;
  std::int32_t item_ = -1;  // of the block, whose panel this is
  ItemPanel panels_[kPanels];
  Sums old_;
};

// A block has few_warps() that may multiply and one that copies, and plan.shared_bytes.
template <WeightLayout kLayout, int kTiles, int kPanels>
__global__ void __launch_bounds__(32 * (few_warps(kTiles) + 1), kTiles < 4 ? 2 : 1)
    few_kernel(const __grid_constant__ FewArgs args) {
  extern __shared__ __align__(128) std::uint8_t few_memory[];
  constexpr int kWarps = few_warps(kTiles);
  const FewShared shared = {few_memory,
                            few_memory + kFewBarrierBytes + few_exchange_bytes(args.plan, kTiles)};
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (std::int32_t stage = 0; stage < args.plan.ring_stages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(
          shared.empty(stage),
          static_cast<std::uint32_t>(args.plan.workers / args.plan.team * args.plan.stage_units));
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (warp == kWarps) {
    copy_few_stages<kLayout>(args, shared, lane);
    return;
  }
  FewWorker<kLayout, kTiles, kPanels> worker(args, shared, warp, lane);
  if (warp < args.plan.workers) worker.begin();
  wait_for_previous();
  if (args.plan.has_own_rows) {
    round_own_rows<kLayout>(args, shared, warp, kWarps, lane);
    asm volatile("bar.sync 15, %0;" ::"n"(32 * kWarps) : "memory");
  }
  if (warp < args.plan.workers) worker.multiply();
}

}  // namespace quire::cuda
