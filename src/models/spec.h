// A decoder as data. A model family is one file that turns a `config.json` or GGUF keys into a
// DecoderSpec and says what its tensors are called; everything else reads the spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/ops.h"

namespace quire {

// The tensors of a decoder. Roles after kOutput exist once a layer.
enum class TensorRole : std::uint8_t {
  kEmbedding,        // [vocab_size, hidden_size]
  kFinalNorm,        // [hidden_size]
  kOutput,           // [vocab_size, hidden_size]; absent where embeddings are tied
  kInputNorm,        // [hidden_size], before attention
  kQuery,            // [num_heads * head_dim, hidden_size]
  kKey,              // [num_kv_heads * head_dim, hidden_size]
  kValue,            // as kKey
  kAttentionOutput,  // [hidden_size, num_heads * head_dim]
  kPostNorm,         // [hidden_size], before the MLP
  kGate,             // [intermediate_size, hidden_size]
  kUp,               // as kGate
  kDown,             // [hidden_size, intermediate_size]
};
inline constexpr int kNumTensorRoles = 12;

// Tensor names by role; "{}" stands for the layer's number.
struct TensorNames {
  std::string_view patterns[kNumTensorRoles];
  std::string name(TensorRole role, std::int64_t layer = 0) const;
};

struct DecoderSpec {
  std::string architecture;  // as the checkpoint calls it
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;  // tokens that the model was trained to reach
  double rms_norm_eps = 0;
  double rope_theta = 0;
  RopeStyle rope_style = RopeStyle::kHalves;
  bool tie_word_embeddings = false;
  const TensorNames* names = nullptr;  // static data of the family

  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }

  // Elements of keys and values that one token leaves in the cache, over all layers.
  std::int64_t kv_elements_per_token() const { return 2 * num_layers * kv_width(); }

  // Bytes of the rotary tables for sequences of up to `max_positions` tokens.
  std::uint64_t rotary_bytes(std::int64_t max_positions) const;

  // All sizes positive, within limits and consistent with each other; `where` names the source.
  Status validate(std::string_view where) const;
};

}  // namespace quire
