// Latent attention of one layer as data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/attention_spec.h"
#include "models/tensor_names.h"

namespace quire {

// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434): of a token one
// vector is cached, the latent that keys and values of all heads are made of, and beside it the one
// key of all heads that turns.
struct LatentAttentionSpec {
  std::int64_t num_heads = 0;
  std::int64_t query_rank = 0;   // of the vector that queries are made of; 0: made of the input
  std::int64_t latent_dims = 0;  // of the latent
  std::int64_t rope_dims = 0;    // of a head, those that turn
  std::int64_t key_dims = 0;     // of a head's key, those that do not turn
  std::int64_t value_dims = 0;   // of a head's value
  double scale = 0;              // of the scores
  double norm_epsilon = 1e-6;    // of the norms of latents, whatever those of the model have
  std::int32_t rope = 0;         // index into DecoderSpec::ropes
  bool bias = false;             // of what latents are made with, and of the output
  bool split_up = false;         // the checkpoint has the keys and the values of heads apart

  std::int64_t query_width() const { return num_heads * (key_dims + rope_dims); }
  std::int64_t value_width() const { return num_heads * value_dims; }
  std::int64_t latent_width() const { return latent_dims + rope_dims; }

  KvHeads kv_heads() const {
    return {.num_heads = num_heads,
            .num_kv_heads = 1,
            .head_dim = latent_width(),
            .latent_dims = latent_dims};
  }
  std::int64_t max_inputs() const;   // of a product that sees all heads
  std::int64_t head_inputs() const;  // the most inputs of a product of one head
  std::int32_t kept_tokens() const { return 0; }

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const LatentAttentionSpec&) const = default;
};

}  // namespace quire
