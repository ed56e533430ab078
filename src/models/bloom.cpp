#include "models/bloom.h"

#include <utility>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr double kMaxBias = 8;  // of the linear biases

constexpr TensorName kBloomNames[] = {
    {TensorRole::kEmbedding, "transformer.word_embeddings.weight"},
    {TensorRole::kEmbeddingNorm, "transformer.word_embeddings_layernorm.weight"},
    {TensorRole::kEmbeddingNormBias, "transformer.word_embeddings_layernorm.bias"},
    {TensorRole::kFinalNorm, "transformer.ln_f.weight"},
    {TensorRole::kFinalNormBias, "transformer.ln_f.bias"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "transformer.h.{layer}.input_layernorm.weight"},
    {TensorRole::kInputNormBias, "transformer.h.{layer}.input_layernorm.bias"},
    {TensorRole::kQueryKeyValue, "transformer.h.{layer}.self_attention.query_key_value.weight"},
    {TensorRole::kQueryKeyValueBias, "transformer.h.{layer}.self_attention.query_key_value.bias"},
    {TensorRole::kAttentionOutput, "transformer.h.{layer}.self_attention.dense.weight"},
    {TensorRole::kAttentionBias, "transformer.h.{layer}.self_attention.dense.bias"},
    {TensorRole::kMlpNorm, "transformer.h.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "transformer.h.{layer}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "transformer.h.{layer}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, "transformer.h.{layer}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "transformer.h.{layer}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, "transformer.h.{layer}.mlp.dense_4h_to_h.bias"},
};

}  // namespace

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
  spec.names = {.own = kBloomNames};
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
