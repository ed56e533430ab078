// Self-attention of one decoder layer, residual included: hidden +=
// Wo(attend(rope(Wqkv(norm(x))))). Multi-head, grouped-query and multi-query attention differ only
// in num_kv_heads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/rotary.h"

namespace quire {

struct AttentionShape {
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;

  std::int64_t qkv_width() const { return (num_heads + 2L * num_kv_heads) * head_dim; }
  std::int64_t out_width() const { return static_cast<std::int64_t>(num_heads) * head_dim; }
};

class AttentionBlock {
 public:
  // `qkv` holds one or more matrices whose outputs, side by side, are q, k and v: one packed
  // matrix, or three where the checkpoint encodes them differently.
  AttentionBlock(AttentionShape shape, std::vector<float> norm, float epsilon,
                 std::vector<PackedWeight> qkv, PackedWeight output);

  // Bytes of arena that forward() takes for `rows` rows.
  static std::uint64_t arena_bytes(const AttentionShape& shape, std::int64_t hidden_size,
                                   std::int64_t rows);

  // hidden: [num_tokens][hidden_size], updated in place. Writes the step's keys and values.
  void forward(ForwardContext& ctx, const RotaryTable& rotary, int layer, float* hidden) const;

 private:
  AttentionShape shape_;
  std::vector<float> norm_;
  float epsilon_;
  std::vector<PackedWeight> qkv_;
  PackedWeight output_;
};

}  // namespace quire
