#include "models/glm.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kGlmNames[] = {
    {TensorRole::kGateUp, "model.layers.{layer}.mlp.gate_up_proj.weight"},
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_self_attn_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_mlp_layernorm.weight"},
};

Result<DecoderSpec> read_glm(const JsonReader& config, NormPlacement norms) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.head_dim = 128, .partial_rotary_factor = 0.5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGlmNames, .shared = kLlamaTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(draft.attention.query_key_value_bias,
                         read_flag(config, "attention_bias", true));
  draft.mlp.fused_gate_up = true;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp, .norms = norms});
  return std::move(spec);
}

}  // namespace

// Of ChatGLM, too, which computes the same.
constexpr GgufForm kGlmGguf = {.architecture = "chatglm",
                               .settings = R"({"attention_bias": false})"};
constexpr GgufForm kGlm4Gguf = {.architecture = "glm4", .settings = R"({"attention_bias": false})"};

Result<DecoderSpec> glm_from_config(const JsonReader& config) {
  return read_glm(config, NormPlacement::kBefore);
}

Result<DecoderSpec> glm4_from_config(const JsonReader& config) {
  return read_glm(config, NormPlacement::kAround);
}

}  // namespace quire
