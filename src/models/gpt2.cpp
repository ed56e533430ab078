#include "models/gpt2.h"

#include <cmath>
#include <utility>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr TensorName kGpt2Names[] = {
    {TensorRole::kEmbedding, "transformer.wte.weight"},
    {TensorRole::kPositions, "transformer.wpe.weight"},
    {TensorRole::kFinalNorm, "transformer.ln_f.weight"},
    {TensorRole::kFinalNormBias, "transformer.ln_f.bias"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "transformer.h.{layer}.ln_1.weight"},
    {TensorRole::kInputNormBias, "transformer.h.{layer}.ln_1.bias"},
    {TensorRole::kQueryKeyValue, "transformer.h.{layer}.attn.c_attn.weight"},
    {TensorRole::kQueryKeyValueBias, "transformer.h.{layer}.attn.c_attn.bias"},
    {TensorRole::kAttentionOutput, "transformer.h.{layer}.attn.c_proj.weight"},
    {TensorRole::kAttentionBias, "transformer.h.{layer}.attn.c_proj.bias"},
    {TensorRole::kMlpNorm, "transformer.h.{layer}.ln_2.weight"},
    {TensorRole::kMlpNormBias, "transformer.h.{layer}.ln_2.bias"},
    {TensorRole::kUp, "transformer.h.{layer}.mlp.c_fc.weight"},
    {TensorRole::kUpBias, "transformer.h.{layer}.mlp.c_fc.bias"},
    {TensorRole::kDown, "transformer.h.{layer}.mlp.c_proj.weight"},
    {TensorRole::kDownBias, "transformer.h.{layer}.mlp.c_proj.bias"},
};

constexpr GgufKey kGpt2Keys[] = {{"feed_forward_length", "n_inner"}};

}  // namespace

constexpr GgufForm kGpt2Gguf = {.architecture = "gpt2", .keys = kGpt2Keys};

Result<DecoderSpec> gpt2_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(own, {"add_cross_attention"}));
  QUIRE_ASSIGN_OR_RETURN(const json::object keys,
                         with_usual_keys(own, {{"n_embd", "hidden_size"},
                                               {"n_head", "num_attention_heads"},
                                               {"n_layer", "num_hidden_layers"},
                                               {"n_positions", "max_position_embeddings"},
                                               {"n_inner", "intermediate_size"}}));
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation_key = "activation_function",
                                                     .activation = Activation::kGeluTanh,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "layer_norm_epsilon"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGpt2Names};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.positions.kind = PositionKind::kLearned;
  spec.transposed_matrices = true;
  AttentionSpec& attention = draft.attention;
  attention.rope = kNoRope;
  attention.fused_projections = true;
  attention.query_key_value_bias = true;
  attention.output_bias = true;
  QUIRE_ASSIGN_OR_RETURN(const bool scaled, read_flag(config, "scale_attn_weights", true));
  if (!scaled) attention.scale = 1.0;
  QUIRE_ASSIGN_OR_RETURN(const bool by_layer,
                         read_flag(config, "scale_attn_by_inverse_layer_idx", false));
  draft.make_layers({.mixer = attention, .feed_forward = draft.plain_mlp(true)});
  for (std::size_t i = 0; by_layer && i < spec.layers.size(); ++i) {
    spec.layers[i].attention().scale /= static_cast<double>(i + 1);
  }
  return std::move(spec);
}

}  // namespace quire
