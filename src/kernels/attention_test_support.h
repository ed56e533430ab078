// What the tests of attention vary.
#pragma once

#include <cstdint>

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

}  // namespace quire
