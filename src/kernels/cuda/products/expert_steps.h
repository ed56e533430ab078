// What a mixture of experts does between its products, on pairs of a row and an expert sorted as
// expert_lists.h has them.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/expert_lists.h"
#include "kernels/cuda/products/gated_activation.cuh"

namespace quire::cuda {

// Orders of inputs of the experts' matrices, of which each may have its own. Pairs of other experts
// are left out.
struct InputOrders {
  const std::int32_t* of[kMaxGroups] =
      {};  // [inputs] of expert first_expert + i; null: as they are
  std::int32_t first_expert = 0;
  std::int32_t num_experts = 0;
};

// The rows of x, [rows][inputs], as the experts of a launch's pairs want them: out[position][k] =
// factor * x[row][order[k]]. weights: a factor for each pair, or null.
void gather_pairs(const Launch& launch, const float* x, std::int64_t pairs, std::int64_t inputs,
                  const ExpertLists& lists, const float* weights, const InputOrders& orders,
                  float* out);

// out[position][k] = function(gate[position][order[k]], up[position][order[k]]), all
// [pairs][width].
void activate_pairs(const Launch& launch, const float* gate, const float* up, std::int64_t pairs,
                    std::int64_t width, const GateFunction& function, const ExpertLists& lists,
                    const InputOrders& orders, float* out);

// out[row] = sum of the results of the row's pairs, y[position], in the order of their experts,
// each times the pair's weight where there are weights. y: [pairs][cols]; out: [rows][cols].
void add_pairs(const Launch& launch, const float* y, std::int64_t rows,
               std::int64_t experts_per_row, std::int64_t cols, const ExpertLists& lists,
               const float* weights, float* out);

}  // namespace quire::cuda
