// What the tests of attention vary.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "kernels/op_table.h"
#include "tensor/dtype.h"

namespace quire {

struct AttentionShape {
  std::int32_t num_heads = 1;
  std::int32_t num_kv_heads = 1;
  std::int32_t head_dim = 64;
  DType dtype = DType::kBF16;
  std::int32_t window = 0;
  float scale = 0.0F;  // 0: the usual one
};

// Each level once: one that has the attention of the level below is skipped.
class AttentionLevels : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    const auto level = static_cast<std::size_t>(GetParam());
    if (level > 0 &&
        op_table(GetParam()).rows.attention == op_table(kIsaLevels[level - 1]).rows.attention) {
      GTEST_SKIP() << "the attention of the level below";
    }
  }
};

}  // namespace quire
