// Routing as the tests of mixtures of experts call it.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "kernels/level_test_support.h"
#include "kernels/ops.h"
#include "kernels/row_ops_test_support.h"

namespace quire {

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

inline Routed routed(std::vector<float> logits, std::int64_t rows, std::int64_t per_row,
                     const Routing& routing, const std::vector<float>& bias = {},
                     int num_threads = 1) {
  ThreadPool pool(num_threads);
  OpContext ctx{pool, op_table(IsaLevel::kRef), {}};
  Routed result;
  result.experts.assign(static_cast<std::size_t>(rows * per_row), -1);
  result.weights.assign(static_cast<std::size_t>(rows * per_row), kNan);
  route(ctx, {.logits = logits.data(),
              .rows = rows,
              .num_experts = std::ssize(logits) / rows,
              .experts_per_row = per_row,
              .routing = routing,
              .choice_bias = bias.empty() ? nullptr : bias.data(),
              .experts = result.experts.data(),
              .weights = result.weights.data()});
  return result;
}

}  // namespace quire
