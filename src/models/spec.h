// A decoder as data. A model family is one file that turns a `config.json` or GGUF keys into a
// DecoderSpec and says what its tensors are called; everything else reads the spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "models/tensor_names.h"
#include "nn/mlp_block.h"
#include "nn/rope_scaling.h"

namespace quire {

// What one layer does differently from others.
struct LayerSpec {
  std::int32_t window = 0;  // keys that a query sees, its own the last of them; 0: all
  std::int32_t rope = 0;    // index into DecoderSpec::ropes

  bool operator==(const LayerSpec&) const = default;
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
  std::int64_t max_position_embeddings = 0;  // tokens that a sequence may reach
  double rms_norm_eps = 0;
  Activation activation = Activation::kSilu;
  double attention_scale = 0;     // of the scores; 1 / sqrt(head_dim) in most families
  double embedding_scale = 1;     // of the embeddings that enter the first layer
  double norm_weight_offset = 0;  // added to the norms' weights: 1 where they are stored around 0
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool query_key_norm = false;  // RMS norm of each query and key head, before rotation
  bool sandwich_norm = false;   // RMS norm of what a block adds, too
  bool tie_word_embeddings = false;
  RopeStyle rope_style = RopeStyle::kHalves;
  std::vector<RopeSpec> ropes;    // the kinds of rotary positions that layers use
  std::vector<LayerSpec> layers;  // [num_layers]
  TensorNames names;

  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }

  // Whether a checkpoint of this model has tensors of this role.
  bool has(TensorRole role) const;

  // Elements of keys and values that one token leaves in the cache, over all layers.
  std::int64_t kv_elements_per_token() const { return 2 * num_layers * kv_width(); }

  // Bytes of the rotary tables for sequences of up to `max_positions` tokens.
  std::uint64_t rotary_bytes(std::int64_t max_positions) const;

  // All sizes positive, within limits and consistent with each other; `where` names the source.
  // validate_sizes() leaves out what families add last: ropes and layers.
  Status validate_sizes(std::string_view where) const;
  Status validate(std::string_view where) const;
};

}  // namespace quire
