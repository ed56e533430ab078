#include "models/flex_olmo.h"

#include <utility>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kFlexOlmoNames[] = {
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_feedforward_layernorm.weight"},
    {TensorRole::kRouter, "model.layers.{layer}.mlp.gate.weight"},
    {TensorRole::kExpertGate, "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
};

}  // namespace

Result<DecoderSpec> flex_olmo_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(config, {"clip_qkv", "mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kFlexOlmoNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kWhole;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 500000.0));
  QUIRE_ASSIGN_OR_RETURN(const MoeSpec moe, read_moe(config,
                                                     {.intermediate_size = "intermediate_size",
                                                      .default_num_experts = 7,
                                                      .default_experts_per_token = 5},
                                                     draft));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = moe, .norms = NormPlacement::kAfter});
  return std::move(spec);
}

}  // namespace quire
