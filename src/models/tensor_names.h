// What the tensors of a decoder are for, and what checkpoints call them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// Roles after kOutput exist once a layer; which of them a model has, DecoderSpec says.
enum class TensorRole : std::uint8_t {
  kEmbedding,            // [vocab_size, hidden_size]
  kFinalNorm,            // [hidden_size]
  kOutput,               // [vocab_size, hidden_size]; absent where embeddings are tied
  kInputNorm,            // [hidden_size], before attention
  kQuery,                // [num_heads * head_dim, hidden_size]
  kKey,                  // [num_kv_heads * head_dim, hidden_size]
  kValue,                // as kKey
  kQueryBias,            // [num_heads * head_dim]
  kKeyBias,              // [num_kv_heads * head_dim]
  kValueBias,            // as kKeyBias
  kQueryNorm,            // [head_dim]
  kKeyNorm,              // [head_dim]
  kAttentionOutput,      // [hidden_size, num_heads * head_dim]
  kAttentionBias,        // [hidden_size], of kAttentionOutput
  kAttentionOutputNorm,  // [hidden_size], after attention, before its residual is added
  kMlpNorm,              // [hidden_size], before the MLP
  kGate,                 // [intermediate_size, hidden_size]
  kUp,                   // as kGate
  kDown,                 // [hidden_size, intermediate_size]
  kGateBias,             // [intermediate_size]
  kUpBias,               // as kGateBias
  kDownBias,             // [hidden_size]
  kMlpOutputNorm,        // [hidden_size], after the MLP, before its residual is added
};

inline constexpr int kNumTensorRoles = 23;

// "{layer}" in the pattern stands for the layer's number.
struct TensorName {
  TensorRole role;
  std::string_view pattern;
};

// The names of one family's tensors: its own, and those that it shares with others, for the roles
// that it does not name itself. Both are static data.
struct TensorNames {
  std::span<const TensorName> own;
  std::span<const TensorName> shared = {};

  // Empty where the family has no such tensor.
  std::string name(TensorRole role, std::int64_t layer = 0) const;
};

}  // namespace quire
