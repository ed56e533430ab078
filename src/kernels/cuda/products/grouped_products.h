// Products of groups of matrices on tensor cores. fragment_form.h says in which order sums are
// added; the size of the tiles that rows are cut into changes no bit.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/gated_activation.cuh"
#include "kernels/cuda/products/grouped_args.h"
#include "kernels/cuda/products/rounded_rows.h"
#include "kernels/packed_weight.h"

namespace quire::cuda {

// Tiles of few rows are best where weights are waited for, those of many where a group has so many
// rows that its weights would be read again and again.
inline constexpr std::int64_t kFewTileRows = 8;
inline constexpr std::int64_t kWideTileRows = 64;

// Codebooks have the smaller ones alone.
[[gnu::always_inline]] constexpr bool has_wide_tiles(WeightLayout layout) {
  return !is_codebook(layout);
}

// Of groups with `rows` rows each, on average.
constexpr std::int64_t tile_rows_of(std::int64_t rows, bool has_wide) {
  return has_wide && rows >= kFewTileRows ? kWideTileRows : kFewTileRows;
}

// Inputs as round_fragments() writes them: of `rows` rows.
struct GroupedInputs {
  const std::uint16_t* x = nullptr;
  const float* sums = nullptr;  // of each 32 inputs; of layouts with minima alone
  std::int64_t rows = 0;
};

// What a gated product writes instead of its results: these as the inputs of another product,
// rounded. Rows are positions; there are places for a multiple of 32 outputs.
struct RoundedOutputs {
  std::uint16_t* x = nullptr;  // as round_fragments() writes them
  float* sums = nullptr;       // of each 32, or null
  std::int64_t rows = 0;
  InputPlaces places = InputPlaces::kNatural;
};

// `layout`: of all matrices, one that multiplies_on_tensor_cores(). args.tile_rows is one of the
// two above.
void grouped_product(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                     const GroupedInputs& inputs);

// The same of two matrices a group, a gate and another: function(gate, other) is rounded.
void grouped_gated_product(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                           const GroupedInputs& inputs, const GateFunction& function,
                           const RoundedOutputs& outputs);

}  // namespace quire::cuda
