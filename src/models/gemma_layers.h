// What Gemma 3n and Gemma 4 have in common: heads whose queries, keys and values are normed, an
// embedding for each layer, and last layers that read the keys and values of earlier ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "models/spec.h"

namespace quire {

// Of Gemma 2, 3, 3n and 4: each has some of these tensors, and Llama's others.
extern const std::span<const TensorName> kGemmaTensorNames;

// Scaled embeddings, tanh GELU, scores that nothing scales; `attention_bias`.
Status set_normed_heads(const JsonReader& config, DecoderDraft& draft);

// `hidden_size_per_layer_input` and `vocab_size_per_layer_input`.
Result<PerLayerSpec> read_per_layer(const JsonReader& config, Activation activation);

// The configuration with the first number of `intermediate_size` and `num_key_value_heads` where
// these have one for each layer.
json::object with_first_numbers(const JsonReader& config);

// `intermediate_size`, a number or one for each layer; all have gated MLPs.
Status set_mlp_sizes(const JsonReader& config, std::vector<LayerSpec>& layers);

// `num_kv_shared_layers`, else `if_absent`: that many last layers read the keys and values of the
// last layer before them of their kind, `sliding` or not. Their own, which published files have
// nevertheless, are not read.
Status share_keys(const JsonReader& config, const std::vector<bool>& sliding,
                  std::int64_t if_absent, DecoderSpec& spec);

}  // namespace quire
