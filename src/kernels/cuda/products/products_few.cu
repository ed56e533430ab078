#include <algorithm>

#include "kernels/cuda/products/few_args.h"
#include "kernels/cuda/products/few_launchers.h"
#include "kernels/cuda/products/few_ring.cuh"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/products_few.h"
#include "kernels/cuda/products/rounded_rows.h"

namespace quire::cuda {
namespace {

FewLauncher launcher_of(WeightLayout layout) {
  for (const auto find :
       {few_dense_launcher, few_group_launcher, few_zero_launcher, few_codebook_launcher,
        few_block_launcher, few_grid_launcher, few_hqq_launcher}) {
    if (const FewLauncher launcher = find(layout); launcher != nullptr) return launcher;
  }
  return few_gptq_launcher(layout);
}

constexpr std::uint64_t kAlignment = 256;

std::uint64_t fragments_bytes(std::int64_t rows, std::int64_t inputs) {
  const auto bytes = static_cast<std::uint64_t>(rows * padded_inputs(inputs)) * 2;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// What all weights of one layout have in common.
FewArgs args_of(const PackedWeight& weight, const float* x, std::int64_t x_stride,
                std::int64_t rows) {
  FewArgs args;
  args.panel_bytes = static_cast<std::int64_t>(panel_bytes(weight.layout(), weight.inputs()));
  args.chunks_end = is_codebook(weight.layout())
                        ? CodebookPanel::of(weight.layout()).tail_offset(weight.inputs())
                        : args.panel_bytes;
  args.inputs = weight.inputs();
  args.rows = static_cast<std::int32_t>(rows);
  args.own_x = x;
  args.own_x_stride = x_stride;
  args.input_order = weight.input_order();
  return args;
}

// Rounds the rows for all blocks.
void round_for_all(const Launch& launch, const FragmentForm& form, FewArgs& args) {
  auto* const rounded = reinterpret_cast<std::uint16_t*>(launch.workspace);
  InputSums sums;
  if (form.has_minimum) {
    sums.sum_inputs = form.sum_inputs();
    sums.values =
        reinterpret_cast<float*>(launch.workspace + fragments_bytes(args.rows, args.inputs));
  }
  round_fragments(launch, args.own_x, args.own_x_stride, args.rows, args.inputs, args.input_order,
                  form.places(), rounded, sums);
  args.x = rounded;
  args.sums = sums.values;
}

// Adds the panels of a weight behind those of others.
std::int32_t add_part(FewArgs& args, const MatmulPart& part, std::int32_t first_panel) {
  args.parts[args.num_parts++] = {.panels = part.weight->bytes().data(),
                                  .first_panel = first_panel,
                                  .outputs = static_cast<std::int32_t>(part.weight->outputs()),
                                  .out = part.out,
                                  .out_stride = part.out_stride,
                                  .bias = part.bias,
                                  .accumulate = part.accumulate};
  return first_panel + static_cast<std::int32_t>(part.weight->num_panels());
}

constexpr std::int32_t divided_up(std::int32_t a, std::int32_t b) { return (a + b - 1) / b; }

// The sizes of a stage, and how many there are in `shared_bytes`.
void plan_ring(FewArgs& args, const FragmentForm& form, std::int32_t units,
               std::int32_t shared_bytes) {
  FewPlan& plan = args.plan;
  const std::int32_t groups = units * few_unit_groups(form, args.tiles, plan.item_panels);
  // What is one chain is no units.
  plan.stage_units = form.span_groups == 0 ? 1 : units;
  plan.unit_groups = groups / plan.stage_units;
  const std::int32_t panels = plan.items_at_once * plan.item_panels;
  const auto all_groups =
      static_cast<std::int32_t>((args.inputs + kGroupInputs - 1) / kGroupInputs);
  plan.stage_groups = groups;
  plan.panel_stages = divided_up(all_groups, groups);
  plan.chunk_bytes = static_cast<std::int32_t>(groups / form.block_groups * form.block_bytes);
  const std::int32_t row_groups =
      plan.has_own_rows ? static_cast<std::int32_t>(padded_inputs(args.inputs) / kGroupInputs)
                        : groups;
  plan.rows_offset = plan.has_own_rows ? 0 : panels * plan.chunk_bytes;
  plan.sums_offset = plan.rows_offset + row_groups * args.rows * 64;
  std::int32_t end = plan.sums_offset;
  if (form.has_minimum) {
    const std::int32_t spans = divided_up(plan.has_own_rows ? all_groups : groups,
                                          static_cast<std::int32_t>(form.span_groups));
    end += spans * 4 * static_cast<std::int32_t>(sum_stride(args.rows));
  }
  const std::int32_t before = kFewBarrierBytes + few_exchange_bytes(plan, args.tiles);
  const std::int32_t behind = plan.has_own_rows ? end : 0;
  plan.stage_bytes = divided_up(plan.has_own_rows ? panels * plan.chunk_bytes : end, 128) * 128;
  plan.ring_stages = std::min((shared_bytes - before - behind) / plan.stage_bytes, kMaxFewStages);
  plan.shared_bytes = before + plan.ring_stages * plan.stage_bytes + behind;
}

// A ring of `plan.items_at_once` items: stages of about kUsualStageBytes.
void plan_stages(FewArgs& args, const FragmentForm& form, std::int32_t shared_bytes) {
  constexpr std::int32_t kUsualStageBytes = 20 * 1024;
  FewPlan& plan = args.plan;
  std::int32_t units = 1;
  plan_ring(args, form, units, shared_bytes);
  while (plan.stage_bytes * 2 <= kUsualStageBytes && units < plan.panel_stages) {
    units *= 2;
    plan_ring(args, form, units, shared_bytes);
  }
}

// How panels are computed. Enough must be on its way to a multiprocessor at any time to hide the
// memory's latency; with half of its shared memory the blocks of the next kernel can begin to fetch
// their weights beside those that are at work.
void plan_blocks(FewArgs& args, const FragmentForm& form, int multiprocessors) {
  constexpr std::int32_t kMaxTeam = 4;
  constexpr std::int32_t kHalfShared = 112 * 1024;
  constexpr std::int32_t kAllShared = 224 * 1024;
  constexpr std::int32_t kFewestStages = 4;
  constexpr std::int32_t kMostOwnRows = 32 * 1024;
  constexpr std::int32_t kLastBytes = 48 * 1024;
  constexpr std::int32_t kManyPanels = 4;  // of a multiprocessor
  FewPlan& plan = args.plan;
  args.tiles = args.rows <= 8 ? 1 : (args.rows <= 16 ? 2 : 4);
  // Two panels a warp halve what it reads of rows; what decodes blocks has no registers for them.
  const bool in_pairs = form.codes < CodeForm::kBlocks && args.tiles > 1 &&
                        args.panels >= kManyPanels * multiprocessors;
  plan.item_panels = args.is_gated || in_pairs ? 2 : 1;
  plan.items = args.is_gated ? args.panels : divided_up(args.panels, plan.item_panels);
  plan.splits = divided_up(args.rows, 8 * args.tiles);
  plan.has_own_rows = padded_inputs(args.inputs) * args.rows * 2 <= kMostOwnRows;
  const std::int32_t of_block = divided_up(plan.items, multiprocessors);
  const std::int32_t warps = few_warps(args.tiles) / plan.splits;
  const std::int32_t shared_bytes = args.tiles == 4 ? kAllShared : kHalfShared;
  // As many items at once as there are warps, because all of their rows are read again for others:
  // fewer only where the rows are the block's own, and stages would be too large.
  for (std::int32_t rounds = divided_up(of_block, warps);; ++rounds) {
    plan.items_at_once = divided_up(of_block, rounds);
    plan.team = form.span_groups == 0 ? 1 : std::min(kMaxTeam, warps / plan.items_at_once);
    plan.workers = plan.items_at_once * plan.splits * plan.team;
    plan_stages(args, form, shared_bytes);
    if (plan.ring_stages >= kFewestStages) break;
    if (plan.items_at_once > 1 && plan.has_own_rows) continue;
    plan_stages(args, form, kAllShared);
    break;
  }
  plan.last_stages = divided_up(kLastBytes, plan.stage_bytes);
}

void launch_product(const Launch& launch, WeightLayout layout, std::int32_t panels, FewArgs& args) {
  const FragmentForm form = fragment_form(layout);
  args.panels = panels;
  plan_blocks(args, form, launch.multiprocessors);
  if (!args.plan.has_own_rows) round_for_all(launch, form, args);
  launcher_of(layout)(launch, args);
}

}  // namespace

std::uint64_t few_workspace_bytes(const StreamLimits& limits) {
  const std::int64_t rows = std::min(limits.max_rows, kMaxFewRows);
  return fragments_bytes(rows, limits.max_inputs) +
         input_sums_bytes(rows, limits.max_inputs, kGroupInputs);
}

void product_of_few(const Launch& launch, const float* x, std::int64_t x_stride, std::int64_t rows,
                    std::span<const MatmulPart> parts) {
  if (rows == 0) return;
  for (std::size_t first = 0; first < parts.size();) {
    const PackedWeight& weight = *parts[first].weight;
    FewArgs args = args_of(weight, x, x_stride, rows);
    std::int32_t panels = 0;
    for (; first < parts.size() && args.num_parts < kMaxFewParts &&
           parts[first].weight->layout() == weight.layout();
         ++first) {
      panels = add_part(args, parts[first], panels);
    }
    launch_product(launch, weight.layout(), panels, args);
  }
}

void gated_product_of_few(const Launch& launch, const float* x, std::int64_t rows,
                          const GatedProducts& products, float* out) {
  if (rows == 0) return;
  FewArgs args = args_of(*products.gate, x, products.gate->inputs(), rows);
  args.is_gated = true;
  args.gate = GateFunction(products.activation, products.clamped);
  const std::int32_t panels = add_part(args,
                                       {.weight = products.gate,
                                        .out = out,
                                        .out_stride = products.gate->outputs(),
                                        .bias = products.gate_bias},
                                       0);
  add_part(args, {.weight = products.up, .bias = products.up_bias}, 0);
  launch_product(launch, products.gate->layout(), panels, args);
}

}  // namespace quire::cuda
