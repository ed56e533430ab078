#include "models/bloom.h"

#include <utility>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr double kMaxBias = 8;  // of the linear biases

constexpr GgufKey kBloomKeys[] = {{"context_length", "seq_length"}};

}  // namespace

constexpr GgufForm kBloomGguf = {.architecture = "bloom", .keys = kBloomKeys};

Result<DecoderSpec> bloom_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(own, {"apply_residual_connection_post_layernorm", "slow_but_exact"}));
  QUIRE_ASSIGN_OR_RETURN(json::object keys,
                         with_usual_keys(own, {{"n_embed", "hidden_size"},
                                               {"n_head", "num_attention_heads"},
                                               {"n_layer", "num_hidden_layers"}}));
  // The sizes of slices that only the slow way adds up one by one.
  keys.erase("pretraining_tp");
  // Biases have no longest distance; this is how long the published models were trained with.
  constexpr std::int64_t kTrainedLength = 2048;
  if (const json::value* length = own.find("seq_length")) {
    keys["max_position_embeddings"] = *length;
  } else {
    keys["max_position_embeddings"] = kTrainedLength;
  }
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation = Activation::kGeluTanh,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "layer_norm_epsilon"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kBloomTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.embedding_norm = true;
  AttentionSpec& attention = draft.attention;
  attention.rope = kNoRope;
  attention.alibi_slopes = alibi_slopes(attention.num_heads, kMaxBias);
  attention.fused_projections = true;
  attention.fused_by_head = true;
  attention.query_key_value_bias = true;
  attention.output_bias = true;
  draft.make_layers({.mixer = attention, .feed_forward = draft.plain_mlp(true)});
  return std::move(spec);
}

}  // namespace quire
