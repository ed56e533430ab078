// Multi-head latent attention of one decoder layer (DeepSeek-AI 2024, DeepSeek-V2, arXiv
// 2405.04434), residual included, in its absorbed form: of a token one vector is cached, and every
// head's query is brought to where that vector is, not the vector to the heads:
//
//   query of head h    [turned q_rope | W_key[h]^T q_nope]
//   cached             [turned k_rope | latent]: the key of all heads, its latent their value
//   result of head h   W_value[h] (weighted sum of latents)
//
// There is no other form of the computation here, whatever a step's rows are: recomputed tokens get
// the bits that they had.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/residual.h"
#include "nn/rotary.h"

namespace quire {

struct LatentAttentionShape {
  std::int32_t num_heads = 0;
  std::int32_t query_rank = 0;  // of what queries are made of; 0: of the block's input
  std::int32_t latent_dims = 0;
  std::int32_t rope_dims = 0;   // of a head, those that turn
  std::int32_t key_dims = 0;    // of a head, the others of its key
  std::int32_t value_dims = 0;  // of a head
  float scale = 0.0F;           // of the scores
  float norm_epsilon = 0.0F;    // of both norms

  std::int64_t query_width() const { return std::int64_t{num_heads} * (key_dims + rope_dims); }
  std::int64_t latent_width() const { return latent_dims + rope_dims; }
  // Of a token's queries as they meet what is cached, and what is cached behind them.
  std::int64_t heads_width() const { return (num_heads + 1) * latent_width(); }
};

// A vector that the checkpoint does not have is empty.
struct LatentAttentionWeights {
  PackedWeight query_down;  // [query_rank][hidden_size], where there is a rank
  DeviceFloats query_down_bias;
  DeviceFloats query_down_norm;      // [query_rank]
  PackedWeight query;                // [query_width][query_rank or hidden_size]
  PackedWeight latent;               // [latent_width][hidden_size]: what turns, then the latent
  DeviceFloats latent_bias;          // [latent_width]
  DeviceFloats latent_norm;          // [latent_dims]
  std::vector<PackedWeight> keys;    // of each head, [latent_dims][key_dims]
  std::vector<PackedWeight> values;  // of each head, [value_dims][latent_dims]
  PackedWeight output;               // [hidden_size][num_heads * value_dims]
  DeviceFloats output_bias;          // [hidden_size]
};

class LatentAttentionBlock {
 public:
  LatentAttentionBlock(const LatentAttentionShape& shape, LatentAttentionWeights weights);

  // Bytes of arena that forward() needs for `rows` rows.
  static std::uint64_t arena_bytes(const LatentAttentionShape& shape, std::int64_t rows);

  // x: [num_tokens][hidden_size]. Writes the step's latents.
  void forward(ForwardContext& ctx, const RotaryTable* rotary, int layer, const float* x,
               const Residual& residual) const;

 private:
  // queries: [rows][query_width]; latents: of the first row, heads_width() apart.
  void project(ForwardContext& ctx, const float* x, float* queries, float* latents) const;

  LatentAttentionShape shape_;
  LatentAttentionWeights weights_;
};

}  // namespace quire
