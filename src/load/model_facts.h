// What kind of model it is, for people: sizes of the decoder and how its weights are encoded in the
// checkpoint. Read from headers, before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire {

struct ModelBundle;

// All tensors of one encoding.
struct EncodingTotal {
  std::string encoding;  // "Q4_1", "BF16"
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
};

struct ModelFacts {
  std::int64_t num_layers = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t latent_dims = 0;  // of a cached vector that are values, too; 0: values lie apart
  std::int64_t max_position_embeddings = 0;
  std::optional<double> rope_theta;  // of the first kind of layers that turn heads, if one does
  bool tie_word_embeddings = false;
  bool chat_template = false;
  std::int64_t num_moe_layers = 0;  // with a mixture of experts
  std::int64_t num_experts = 0;     // of such a layer
  std::int64_t experts_per_token = 0;
  std::int64_t expert_size = 0;          // the intermediate size of one
  std::uint64_t active_weights = 0;      // that a token meets
  std::int64_t num_streams = 0;          // hidden states of a token (AltUp); 0: it has one
  std::int64_t laurel_rank = 0;          // of residuals beside attention (LAuReL); 0: none
  std::int64_t per_layer_width = 0;      // of a token's embedding for each layer; 0: none
  std::int64_t num_sparse_layers = 0;    // whose gates are open above a cutoff alone
  std::int64_t num_shared_layers = 0;    // that read the keys and values of others
  std::vector<EncodingTotal> encodings;  // by name
};

ModelFacts model_facts(const ModelBundle& bundle);

}  // namespace quire
