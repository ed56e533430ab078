// The second products of a mixture of experts and the sums of their results, as one kernel: for
// steps with few pairs of a row and an expert, for which a launch more takes a good share of the
// time. It has the bits of grouped_product() and add_pairs().
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/expert_lists.h"
#include "kernels/cuda/products/grouped_products.h"

namespace quire::cuda {

inline constexpr std::int64_t kMaxDownPairs = 256;

// What becomes of the results of pairs: as add_pairs() has it.
struct PairSums {
  const std::int32_t* position_of = nullptr;  // ExpertLists
  const float* weights = nullptr;             // of pairs; null: 1
  std::int64_t rows = 0;
  std::int64_t experts_per_row = 0;
  float* out = nullptr;  // [rows][outputs]
};

// args: one matrix an expert, all experts, and tiles of at most kFewTileRows rows of at most
// kMaxDownPairs pairs; its `out` is not used.
void expert_down(const Launch& launch, WeightLayout layout, const GroupedArgs& args,
                 const GroupedInputs& inputs, const PairSums& sums);

}  // namespace quire::cuda
