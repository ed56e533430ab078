// Self-attention of one decoder layer, residual included: hidden += Wo(attend(rope(Wqkv(x)))).
// Multi-head, grouped-query and multi-query attention differ only in num_kv_heads. Biases, norms of
// query and key heads, a window and what scores become are there where the weights and the shape
// say so. A layer may read the keys and values of an earlier one: it projects queries alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/residual.h"
#include "nn/rotary.h"

namespace quire {

struct AttentionShape {
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  float scale = 0.0F;       // of the scores
  std::int32_t window = 0;  // as in AttentionArgs
  std::int32_t chunk = 0;   // the same
  float soft_cap = 0.0F;    // the same
  float qkv_limit = 0.0F;   // of the size of queries, keys and values as projected; 0: none
  std::optional<PositionScale> query_scale = {};
  bool whole_norms = false;  // norms are over all heads of a token, not over each
  bool norms_after_rope = false;
  bool value_norm = false;  // each head of the values is normed, without weights
  bool own_keys = true;     // else those of another layer are in the cache when this one computes

  std::int64_t qkv_width() const {
    return (num_heads + (own_keys ? 2L * num_kv_heads : 0L)) * head_dim;
  }
  std::int64_t out_width() const { return static_cast<std::int64_t>(num_heads) * head_dim; }
};

// A vector that the checkpoint does not have is empty.
struct AttentionWeights {
  // One or more matrices whose outputs, side by side, are q, k and v: one packed matrix, or three
  // where the checkpoint encodes them differently; q alone where keys are another layer's.
  std::vector<PackedWeight> qkv;
  DeviceFloats qkv_bias;      // [qkv_width]
  DeviceFloats q_norm;        // [head_dim], or of all heads
  DeviceFloats k_norm;        // as q_norm
  DeviceFloats v_norm;        // [head_dim] of ones where values are normed
  DeviceFloats alibi_slopes;  // [num_heads]
  DeviceFloats sinks;         // [num_heads]
  PackedWeight output;
  DeviceFloats output_bias;  // [hidden_size]
};

class AttentionBlock {
 public:
  // `epsilon`: of the norms of query and key heads.
  AttentionBlock(AttentionShape shape, float epsilon, AttentionWeights weights);

  // Bytes of arena that forward() needs for `rows` rows.
  static std::uint64_t arena_bytes(const AttentionShape& shape, std::int64_t rows);

  // x: [num_tokens][hidden_size]. `rotary`: null where heads do not turn. Writes the step's keys
  // and values.
  void forward(ForwardContext& ctx, const RotaryTable* rotary, int layer, const float* x,
               const Residual& residual) const;

 private:
  // heads.qkv: queries, keys and values of the step, the keys and values in the cache, too.
  void project_qkv(ForwardContext& ctx, const float* x, const RopeAndCacheArgs& heads) const;

  AttentionShape shape_;
  float epsilon_;
  AttentionWeights weights_;
};

}  // namespace quire
