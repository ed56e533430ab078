#include "models/gpt_neox.h"

#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr TensorName kGptNeoxNames[] = {
    {TensorRole::kEmbedding, "gpt_neox.embed_in.weight"},
    {TensorRole::kFinalNorm, "gpt_neox.final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, "gpt_neox.final_layer_norm.bias"},
    {TensorRole::kOutput, "embed_out.weight"},
    {TensorRole::kInputNorm, "gpt_neox.layers.{layer}.input_layernorm.weight"},
    {TensorRole::kInputNormBias, "gpt_neox.layers.{layer}.input_layernorm.bias"},
    {TensorRole::kQueryKeyValue, "gpt_neox.layers.{layer}.attention.query_key_value.weight"},
    {TensorRole::kQueryKeyValueBias, "gpt_neox.layers.{layer}.attention.query_key_value.bias"},
    {TensorRole::kAttentionOutput, "gpt_neox.layers.{layer}.attention.dense.weight"},
    {TensorRole::kAttentionBias, "gpt_neox.layers.{layer}.attention.dense.bias"},
    {TensorRole::kMlpNorm, "gpt_neox.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "gpt_neox.layers.{layer}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kDown, "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kUpBias, "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDownBias, "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.bias"},
};

constexpr GgufKey kGptNeoxKeys[] = {{"use_parallel_residual", "use_parallel_residual"}};

}  // namespace

constexpr GgufForm kGptNeoxGguf = {.architecture = "gptneox", .keys = kGptNeoxKeys};

Result<DecoderSpec> gpt_neox_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(const auto share, config.find_double("rotary_pct"));
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rotary_emb_base"));
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.activation = Activation::kGelu,
                                  .gated_mlp = false,
                                  .norm_epsilon_key = "layer_norm_eps",
                                  .partial_rotary_factor = share.value_or(0.25)}));
  if (draft.attention.num_kv_heads != draft.attention.num_heads) {
    return unsupported(config.where(), "num_key_value_heads",
                       fmt::format("{}", draft.attention.num_kv_heads));
  }
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGptNeoxNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", true, draft.attention));
  draft.attention.fused_projections = true;
  draft.attention.fused_by_head = true;
  const PlainMlpSpec mlp = draft.plain_mlp(true);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, theta.value_or(10000.0)));
  QUIRE_ASSIGN_OR_RETURN(const bool parallel, read_flag(config, "use_parallel_residual", true));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = mlp, .parallel = parallel, .two_norms = parallel});
  return std::move(spec);
}

}  // namespace quire
