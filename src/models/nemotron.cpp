#include "models/nemotron.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kNemotronNames[] = {
    {TensorRole::kFinalNormBias, "model.norm.bias"},
    {TensorRole::kInputNormBias, "model.layers.{layer}.input_layernorm.bias"},
    {TensorRole::kMlpNormBias, "model.layers.{layer}.post_attention_layernorm.bias"},
};

}  // namespace

constexpr GgufForm kNemotronGguf = {.architecture = "nemotron"};

Result<DecoderSpec> nemotron_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.activation = Activation::kRelu2,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "norm_eps",
                                                     .partial_rotary_factor = 0.5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kNemotronNames, .shared = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.norm.weight_offset = 1.0;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  QUIRE_ASSIGN_OR_RETURN(const bool mlp_bias, read_flag(config, "mlp_bias", false));
  const PlainMlpSpec mlp = draft.plain_mlp(mlp_bias);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = mlp});
  return std::move(spec);
}

}  // namespace quire
