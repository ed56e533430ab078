#include <algorithm>
#include <initializer_list>
#include <limits>
#include <span>

#include "base/checked.h"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/many_launchers.h"
#include "kernels/cuda/products/products_many.h"

namespace quire::cuda {
namespace {

void launch_many_rows(const Launch& launch, ManyCall call) {
  if (call.x.rows == 0) return;
  call.num_panels = call.part.weight->num_panels();
  for (const auto& launcher_of :
       {many_bf16_launcher, many_f16_launcher, many_row_launcher, many_group_launcher,
        many_super_launcher, many_span_launcher, many_zero_launcher, many_nf4_launcher,
        many_fp4_launcher, many_block_launcher, many_grid_launcher, many_hqq_launcher,
        many_gptq_launcher}) {
    const ManyLauncher launcher = launcher_of(call.part.weight->layout());
    if (launcher == nullptr) continue;
    launcher(launch, call);
    return;
  }
}

// Cycles for so many panels with tiles of one kind, as many at a time as there are multiprocessors.
std::int64_t cycles_of(const TileKind& kind, const Launch& launch, const ManyCall& call,
                       std::int64_t panels) {
  constexpr std::int64_t kInputsOfStep = 64;
  constexpr std::int64_t kTileCycles = 4000;  // beside the steps
  const std::int64_t tiles = ceil_div(call.x.rows, kind.rows) * ceil_div(panels, kind.panels);
  const std::int64_t steps = ceil_div(call.part.weight->inputs(), kInputsOfStep);
  return ceil_div(tiles, launch.multiprocessors) * (steps * kind.step_cycles + kTileCycles);
}

// The panels of as many whole rounds as there are.
std::int64_t whole_rounds(const TileKind& kind, const Launch& launch, const ManyCall& call) {
  const std::int64_t row_tiles = ceil_div(call.x.rows, kind.rows);
  const std::int64_t tiles = row_tiles * ceil_div(call.num_panels, kind.panels);
  const std::int64_t whole = tiles / launch.multiprocessors * launch.multiprocessors;
  return std::min(whole / row_tiles * kind.panels, call.num_panels);
}

}  // namespace

void launch_best(const Launch& launch, const ManyCall& call, std::span<const TileKind> kinds) {
  constexpr std::int64_t kLaunchCycles = 6000;  // of a second kernel
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const TileKind* first = nullptr;
  const TileKind* second = nullptr;
  std::int64_t panels = 0;  // with tiles of the first kind
  for (const TileKind& kind : kinds) {
    const std::int64_t whole = whole_rounds(kind, launch, call);
    const std::int64_t rest = call.num_panels - whole;
    for (const TileKind& other : kinds) {
      const bool is_one = &other == &kind || whole == 0 || rest == 0;
      const std::int64_t own = is_one ? call.num_panels : whole;
      std::int64_t cycles = cycles_of(kind, launch, call, own);
      if (!is_one) cycles += cycles_of(other, launch, call, rest) + kLaunchCycles;
      if (cycles >= least) continue;
      least = cycles;
      first = &kind;
      second = &other;
      panels = own;
    }
  }
  ManyCall part = call;
  part.num_panels = panels;
  first->launch(launch, part);
  if (panels == call.num_panels) return;
  part.first_panel = panels;
  part.num_panels = call.num_panels - panels;
  second->launch(launch, part);
}

bool multiplies_many(WeightLayout layout) { return multiplies_on_tensor_cores(layout); }

void product_of_many(const Launch& launch, const ManyRows& x, const MatmulPart& part) {
  launch_many_rows(launch, {.x = x, .part = part});
}

void gated_product_of_many(const Launch& launch, const ManyRows& x, const GatedProducts& products,
                           float* out) {
  launch_many_rows(launch, {.x = x,
                            .part = {.weight = products.gate,
                                     .out = out,
                                     .out_stride = products.gate->outputs(),
                                     .bias = products.gate_bias},
                            .up = products.up,
                            .up_bias = products.up_bias,
                            .gate = GateFunction(products.activation, products.clamped)});
}

}  // namespace quire::cuda
