#include "models/opt.h"

#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr TensorName kOptNames[] = {
    {TensorRole::kEmbedding, "model.decoder.embed_tokens.weight"},
    {TensorRole::kPositions, "model.decoder.embed_positions.weight"},
    {TensorRole::kFinalNorm, "model.decoder.final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, "model.decoder.final_layer_norm.bias"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "model.decoder.layers.{layer}.self_attn_layer_norm.weight"},
    {TensorRole::kInputNormBias, "model.decoder.layers.{layer}.self_attn_layer_norm.bias"},
    {TensorRole::kQuery, "model.decoder.layers.{layer}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "model.decoder.layers.{layer}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "model.decoder.layers.{layer}.self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "model.decoder.layers.{layer}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "model.decoder.layers.{layer}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "model.decoder.layers.{layer}.self_attn.v_proj.bias"},
    {TensorRole::kAttentionOutput, "model.decoder.layers.{layer}.self_attn.out_proj.weight"},
    {TensorRole::kAttentionBias, "model.decoder.layers.{layer}.self_attn.out_proj.bias"},
    {TensorRole::kMlpNorm, "model.decoder.layers.{layer}.final_layer_norm.weight"},
    {TensorRole::kMlpNormBias, "model.decoder.layers.{layer}.final_layer_norm.bias"},
    {TensorRole::kUp, "model.decoder.layers.{layer}.fc1.weight"},
    {TensorRole::kUpBias, "model.decoder.layers.{layer}.fc1.bias"},
    {TensorRole::kDown, "model.decoder.layers.{layer}.fc2.weight"},
    {TensorRole::kDownBias, "model.decoder.layers.{layer}.fc2.bias"},
};

}  // namespace

Result<DecoderSpec> opt_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(own, {"_remove_final_layer_norm"}));
  QUIRE_ASSIGN_OR_RETURN(const bool norms_before, read_flag(own, "do_layer_norm_before", true));
  if (!norms_before) return unsupported(own.where(), "do_layer_norm_before", "false");
  QUIRE_ASSIGN_OR_RETURN(const json::object keys,
                         with_usual_keys(own, {{"ffn_dim", "intermediate_size"}}));
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation_key = "activation_function",
                                                     .activation = Activation::kRelu,
                                                     .gated_mlp = false,
                                                     .norm_epsilon = 1e-5}));
  DecoderSpec& spec = draft.spec;
  QUIRE_ASSIGN_OR_RETURN(const auto embedding, config.find_int("word_embed_proj_dim"));
  if (embedding.value_or(spec.hidden_size) != spec.hidden_size) {
    return unsupported(config.where(), "word_embed_proj_dim", fmt::format("{}", *embedding));
  }
  spec.names = {.own = kOptNames};
  spec.norm.kind = NormKind::kLayer;
  QUIRE_ASSIGN_OR_RETURN(spec.norm.weight,
                         read_flag(config, "layer_norm_elementwise_affine", true));
  spec.norm.bias = spec.norm.weight;
  spec.positions = {.kind = PositionKind::kLearned, .offset = 2};
  draft.attention.rope = kNoRope;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "enable_bias", true, draft.attention));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.plain_mlp(draft.attention.output_bias)});
  return std::move(spec);
}

}  // namespace quire
