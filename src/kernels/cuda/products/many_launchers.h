// The launches of the kernels of products_many.h by layout, compiled in files of their own.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/gated_activation.cuh"
#include "kernels/cuda/products/products_many.h"
#include "kernels/op_args.h"

namespace quire::cuda {

// Some panels' outputs of a product.
struct ManyCall {
  ManyRows x;
  MatmulPart part;                   // of a gated product, the gate, and where results go
  const PackedWeight* up = nullptr;  // of a gated product
  const float* up_bias = nullptr;
  GateFunction gate = {};
  std::int64_t first_panel = 0;
  std::int64_t num_panels = 0;
};

using ManyLauncher = void (*)(const Launch& launch, const ManyCall& call);

// A kernel that computes tiles of so many rows and panels.
struct TileKind {
  std::int64_t rows = 0;
  std::int64_t panels = 0;
  std::int64_t step_cycles = 0;  // that a block takes for 64 inputs of a tile
  ManyLauncher launch = nullptr;
};

// With the kind of tile that takes least time, and what does not fill all multiprocessors at the
// end maybe with another.
void launch_best(const Launch& launch, const ManyCall& call, std::span<const TileKind> kinds);

// Null for layouts that another file has.
ManyLauncher many_bf16_launcher(WeightLayout layout);
ManyLauncher many_f16_launcher(WeightLayout layout);
ManyLauncher many_row_launcher(WeightLayout layout);
ManyLauncher many_group_launcher(WeightLayout layout);
ManyLauncher many_super_launcher(WeightLayout layout);
ManyLauncher many_span_launcher(WeightLayout layout);
ManyLauncher many_zero_launcher(WeightLayout layout);
ManyLauncher many_nf4_launcher(WeightLayout layout);
ManyLauncher many_fp4_launcher(WeightLayout layout);
ManyLauncher many_block_launcher(WeightLayout layout);
ManyLauncher many_grid_launcher(WeightLayout layout);
ManyLauncher many_hqq_launcher(WeightLayout layout);
ManyLauncher many_gptq_launcher(WeightLayout layout);

}  // namespace quire::cuda
