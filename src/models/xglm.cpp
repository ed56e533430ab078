#include "models/xglm.h"

#include <cmath>
#include <utility>

#include "models/config_keys.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kXglmNames[] = {
    {TensorRole::kFinalNorm, "model.layer_norm.weight"},
    {TensorRole::kFinalNormBias, "model.layer_norm.bias"},
    {TensorRole::kInputNorm, "model.layers.{layer}.self_attn_layer_norm.weight"},
    {TensorRole::kInputNormBias, "model.layers.{layer}.self_attn_layer_norm.bias"},
    {TensorRole::kAttentionOutput, "model.layers.{layer}.self_attn.out_proj.weight"},
    {TensorRole::kAttentionBias, "model.layers.{layer}.self_attn.out_proj.bias"},
    {TensorRole::kMlpNorm, "model.layers.{layer}.final_layer_norm.weight"},
    {TensorRole::kMlpNormBias, "model.layers.{layer}.final_layer_norm.bias"},
    {TensorRole::kUp, "model.layers.{layer}.fc1.weight"},
    {TensorRole::kUpBias, "model.layers.{layer}.fc1.bias"},
    {TensorRole::kDown, "model.layers.{layer}.fc2.weight"},
    {TensorRole::kDownBias, "model.layers.{layer}.fc2.bias"},
};

}  // namespace

Result<DecoderSpec> xglm_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(own, {"add_cross_attention"}));
  QUIRE_ASSIGN_OR_RETURN(const json::object keys,
                         with_usual_keys(own, {{"d_model", "hidden_size"},
                                               {"attention_heads", "num_attention_heads"},
                                               {"num_layers", "num_hidden_layers"},
                                               {"ffn_dim", "intermediate_size"}}));
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation_key = "activation_function",
                                                     .activation = Activation::kGelu,
                                                     .gated_mlp = false,
                                                     .norm_epsilon = 1e-5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kXglmNames, .shared = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.positions = {.kind = PositionKind::kSinusoidal, .offset = 2};
  QUIRE_ASSIGN_OR_RETURN(const bool scaled, read_flag(config, "scale_embedding", true));
  if (scaled) spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  draft.attention.rope = kNoRope;
  draft.attention.query_key_value_bias = true;
  draft.attention.output_bias = true;
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.plain_mlp(true)});
  return std::move(spec);
}

}  // namespace quire
