// What tests of row ops share: numbers, and a level's table with a pool.
#pragma once

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace quire {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<float> random_floats(std::size_t count, float spread, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// What rope_and_cache() does in all.
inline HeadTile all_heads(const RopeAndCacheArgs& args) {
  return {.token_end = args.num_tokens, .head_end = args.all_heads()};
}

class RowOps : public ::testing::TestWithParam<IsaLevel> {
 protected:
  ThreadPool pool_{2};
  OpContext ctx_{pool_, op_table(GetParam()), {}};
};

}  // namespace quire
