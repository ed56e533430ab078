#include "models/phi.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kPhiNames[] = {
    {TensorRole::kFinalNorm, "model.final_layernorm.weight"},
    {TensorRole::kFinalNormBias, "model.final_layernorm.bias"},
    {TensorRole::kOutputBias, "lm_head.bias"},
    {TensorRole::kInputNormBias, "model.layers.{layer}.input_layernorm.bias"},
    {TensorRole::kAttentionOutput, "model.layers.{layer}.self_attn.dense.weight"},
    {TensorRole::kAttentionBias, "model.layers.{layer}.self_attn.dense.bias"},
    {TensorRole::kUp, "model.layers.{layer}.mlp.fc1.weight"},
    {TensorRole::kDown, "model.layers.{layer}.mlp.fc2.weight"},
    {TensorRole::kUpBias, "model.layers.{layer}.mlp.fc1.bias"},
    {TensorRole::kDownBias, "model.layers.{layer}.mlp.fc2.bias"},
};

}  // namespace

constexpr GgufForm kPhi2Gguf = {.architecture = "phi2"};

Result<DecoderSpec> phi_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"qk_layernorm", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.activation = Activation::kGeluTanh,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "layer_norm_eps",
                                                     .partial_rotary_factor = 0.5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kPhiNames, .shared = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.output_bias = true;
  draft.attention.query_key_value_bias = true;
  draft.attention.output_bias = true;
  const PlainMlpSpec mlp = draft.plain_mlp(true);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = mlp, .parallel = true});
  return std::move(spec);
}

}  // namespace quire
