// The ring of stages in shared memory through which a block of products_few.h reads panels and
// rows, and the warp that copies them there.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/few_args.h"
#include "kernels/cuda/products/fragment_form.h"

namespace quire::cuda {

inline constexpr int kMaxFewStages = 32;
inline constexpr int kFewBarrierBytes = 16 * kMaxFewStages;
// Four sums of each lane, for each panel and tile of 8 rows of a warp.
constexpr int few_exchange_bytes(const FewPlan& plan, int tiles) {
  return plan.team == 1 ? 0 : plan.workers * plan.item_panels * tiles * 512;
}

__device__ inline void arrive_at(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Shared memory of a block: barriers of stages, sums that warps hand to others, stages.
struct FewShared {
  std::uint8_t* base = nullptr;
  std::uint8_t* stages = nullptr;

  __device__ std::uint32_t full(std::int32_t stage) const {
    return shared_address(base) + 8 * static_cast<std::uint32_t>(stage);
  }
  __device__ std::uint32_t empty(std::int32_t stage) const { return full(kMaxFewStages + stage); }
  // Of a warp whose sums are so many times four of each lane.
  __device__ float4* exchange(int warp, int fours) const {
    return reinterpret_cast<float4*>(base + kFewBarrierBytes + warp * fours * 512);
  }
};

// A number that stays in a register: what a loop reads of a kernel's arguments again and again
// takes longer than the loop has.
__device__ inline std::int32_t in_register(std::int32_t value) {
  asm("" : "+r"(value));
  return value;
}

// The ring as one warp goes through it.
struct FewRing {
  std::uint32_t barriers = 0;  // of the stage
  std::uint8_t* stage = nullptr;
  std::uint32_t parity = 0;
  std::int32_t place = 0;
  // of the plan
  std::int32_t count = 0;
  std::int32_t stage_bytes = 0;

  __device__ FewRing(const FewPlan& plan, const FewShared& shared)
      : barriers(shared.full(0)),
        stage(shared.stages),
        count(in_register(plan.ring_stages)),
        stage_bytes(in_register(plan.stage_bytes)) {}
  __device__ std::uint32_t full() const { return barriers; }
  __device__ std::uint32_t empty() const { return barriers + 8 * kMaxFewStages; }
  // Without branches: warps that multiply chains have none of them to lose time at.
  __device__ void advance() {
    const bool wraps = place + 1 == count;
    place = wraps ? 0 : place + 1;
    barriers += wraps ? 8U - 8U * static_cast<std::uint32_t>(count) : 8U;
    stage += wraps ? stage_bytes - count * stage_bytes : stage_bytes;
    parity ^= wraps ? 1U : 0U;
  }
};

struct ItemPanel {
  std::int32_t part = 0;
  std::int32_t index = 0;               // of the part
  const std::uint8_t* bytes = nullptr;  // null: behind the last panel
};

// Panel `of` of an item.
__device__ inline ItemPanel few_panel(const FewArgs& args, std::int32_t item, int of) {
  std::int32_t part = of;
  std::int32_t index = item;
  if (!args.is_gated) {
    index = item * args.plan.item_panels + of;
    if (index >= args.panels) return {};
    part = 0;
    while (part + 1 < args.num_parts && index >= args.parts[part + 1].first_panel) ++part;
    index -= args.parts[part].first_panel;
  }
  return {part, index, args.parts[part].panels + index * args.panel_bytes};
}

// How many items a block computes.
__device__ inline std::int32_t few_items(const FewArgs& args) {
  const auto blocks = static_cast<std::int32_t>(gridDim.x);
  return (args.plan.items - static_cast<std::int32_t>(blockIdx.x) + blocks - 1) / blocks;
}
__device__ inline std::int32_t few_item(std::int32_t index) {
  return static_cast<std::int32_t>(blockIdx.x) + index * static_cast<std::int32_t>(gridDim.x);
}

// The rows of the stages of a panel, and the sums of their inputs.
template <WeightLayout kLayout>
struct FewRowCopies {
  static constexpr FragmentForm kForm = fragment_form(kLayout);
  static constexpr std::int32_t kSpanGroups =
      kForm.has_minimum ? static_cast<std::int32_t>(kForm.span_groups) : 1;

  const FewArgs& args;
  std::int32_t groups = 0;  // of a panel
  std::int32_t stride = 0;  // of sums

  __device__ explicit FewRowCopies(const FewArgs& of)
      : args(of),
        groups(static_cast<std::int32_t>((of.inputs + kGroupInputs - 1) / kGroupInputs)),
        stride(static_cast<std::int32_t>(sum_stride(of.rows))) {}

  __device__ std::int32_t groups_of(std::int32_t step) const {
    return min(args.plan.stage_groups, groups - step * args.plan.stage_groups);
  }
  __device__ std::uint32_t sums_bytes(std::int32_t step) const {
    if constexpr (!kForm.has_minimum) return 0;
    return static_cast<std::uint32_t>((groups_of(step) + kSpanGroups - 1) / kSpanGroups * stride) *
           4;
  }
  __device__ std::uint32_t bytes(std::int32_t step) const {
    if (args.plan.has_own_rows) return 0;
    return static_cast<std::uint32_t>(groups_of(step) * args.rows) * 64 + sums_bytes(step);
  }
  __device__ void copy(std::int32_t step, std::uint8_t* stage, std::uint32_t full) const {
    const std::int32_t group = step * args.plan.stage_groups;
    const std::uint32_t to = shared_address(stage);
    copy_bytes(args.x + std::int64_t{group} * args.rows * kGroupInputs,
               static_cast<std::uint32_t>(groups_of(step) * args.rows) * 64,
               to + args.plan.rows_offset, full);
    if constexpr (kForm.has_minimum) {
      copy_bytes(args.sums + std::int64_t{group} / kSpanGroups * stride, sums_bytes(step),
                 to + args.plan.sums_offset, full);
    }
  }
};

// Copies everything that the block multiplies, in order; by one warp, a lane for each panel.
template <WeightLayout kLayout>
__device__ void copy_few_stages(const FewArgs& args, const FewShared& shared, int lane) {
  constexpr auto kHeaderBytes = static_cast<std::int32_t>(fragment_form(kLayout).header_bytes);
  const FewPlan& plan = args.plan;
  const FewRowCopies<kLayout> rows(args);
  const std::int32_t per_item = plan.item_panels;
  const std::int32_t items = few_items(args);
  const std::int32_t rounds = (items + plan.items_at_once - 1) / plan.items_at_once;
  const std::int32_t stages = rounds * plan.panel_stages;
  const std::int32_t ahead = min(stages, plan.ring_stages);
  const std::int32_t let_start = max(stages - plan.last_stages, 0);
  FewRing ring(plan, shared);
  std::int32_t index = 0;
  for (std::int32_t first = 0; first < items; first += plan.items_at_once) {
    const std::uint8_t* from = nullptr;  // the lane's panel, from the next chunk on
    if (lane < min(plan.items_at_once, items - first) * per_item) {
      from = few_panel(args, few_item(first + lane / per_item), lane % per_item).bytes;
    }
    const bool has_panel = from != nullptr;
    const auto panels = static_cast<std::uint32_t>(__popc(__ballot_sync(~0U, has_panel)));
    from += kHeaderBytes;
    auto left = static_cast<std::int32_t>(args.chunks_end) - kHeaderBytes;
    for (std::int32_t step = 0; step < plan.panel_stages; ++step, ++index) {
      // Sooner they would take bandwidth from this kernel.
      if (index == let_start) let_next_start();
      const auto chunk = static_cast<std::uint32_t>(min(left, plan.chunk_bytes));
      barrier_wait(ring.empty(), ring.parity ^ 1U);
      if (lane == 0) barrier_expect(ring.full(), rows.bytes(step) + chunk * panels);
      __syncwarp();
      if (has_panel) {
        copy_bytes(from, chunk, shared_address(ring.stage) + lane * plan.chunk_bytes, ring.full());
      }
      if (plan.has_own_rows) {
        // There are no others.
      } else if (index >= ahead) {
        if (lane == 31) rows.copy(step, ring.stage, ring.full());
      } else if (index + 1 == ahead) {
        // Weights never change: those of the first stages are on their way before the rows are
        // there.
        wait_for_previous();
        for (std::int32_t stage = lane; stage < ahead; stage += 32) {
          rows.copy(stage % plan.panel_stages, shared.stages + stage * plan.stage_bytes,
                    shared.full(stage));
        }
      }
      from += plan.chunk_bytes;
      left -= plan.chunk_bytes;
      ring.advance();
    }
  }
}

}  // namespace quire::cuda
