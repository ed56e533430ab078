#include "models/gpt_oss.h"

#include <utility>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr std::int64_t kGptOssPattern = 2;  // every other layer sees all keys

// The others are Llama's.
constexpr TensorName kGptOssNames[] = {
    {TensorRole::kAttentionSinks, "model.layers.{layer}.self_attn.sinks"},
    {TensorRole::kRouter, "model.layers.{layer}.mlp.router.weight"},
    {TensorRole::kRouterLogitBias, "model.layers.{layer}.mlp.router.bias"},
    {TensorRole::kExpertGateUps, "model.layers.{layer}.mlp.experts.gate_up_proj"},
    {TensorRole::kExpertGateUpBiases, "model.layers.{layer}.mlp.experts.gate_up_proj_bias"},
    {TensorRole::kExpertDowns, "model.layers.{layer}.mlp.experts.down_proj"},
    {TensorRole::kExpertDownBiases, "model.layers.{layer}.mlp.experts.down_proj_bias"},
};

// Published are experts in MXFP4, whose rows are outputs; those of copies in BF16 are inputs.
Result<bool> has_mxfp4_experts(const JsonReader& config) {
  if (!config.contains("quantization_config")) return false;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader quantization, config.get_object("quantization_config"));
  QUIRE_ASSIGN_OR_RETURN(const auto method, quantization.find_string("quant_method"));
  return method == "mxfp4";
}

Result<MoeSpec> read_gpt_oss_moe(const JsonReader& config, const DecoderDraft& draft) {
  if (draft.mlp.activation != Activation::kSilu) {
    return unsupported(config.where(), "hidden_act", "an activation other than silu");
  }
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.intermediate_size = "intermediate_size",
                                                .default_num_experts = 128,
                                                .default_experts_per_token = 4},
                                               draft));
  QUIRE_ASSIGN_OR_RETURN(const auto alpha, config.find_double("swiglu_alpha"));
  QUIRE_ASSIGN_OR_RETURN(const auto limit, config.find_double("swiglu_limit"));
  moe.clamped = ClampedGate{.alpha = static_cast<float>(alpha.value_or(1.702)),
                            .limit = static_cast<float>(limit.value_or(7.0))};
  moe.routing.weights_sum_to_one = true;
  QUIRE_ASSIGN_OR_RETURN(const bool as_published, has_mxfp4_experts(config));
  moe.tensors = as_published ? ExpertTensors::kStackedPairs : ExpertTensors::kTurnedPairs;
  moe.router_bias = true;
  moe.biases = true;
  return moe;
}

constexpr TensorName kGptOssGgufNames[] = {
    {TensorRole::kMlpNorm, "blk.{layer}.post_attention_norm.weight"},
};

constexpr GgufKey kGptOssKeys[] = {
    {"expert_feed_forward_length", "intermediate_size"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
};

}  // namespace

constexpr GgufForm kGptOssGguf = {
    .architecture = "gpt-oss",
    .keys = kGptOssKeys,
    .names = kGptOssGgufNames,
    // As published: the ramp of its YaRN has no whole pairs at its ends.
    .settings =
        R"({"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"truncate": false}})",
    .mixture = true};

Result<DecoderSpec> gpt_oss_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 64}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGptOssNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", true, draft.attention));
  draft.attention.sinks = true;
  QUIRE_ASSIGN_OR_RETURN(const MoeSpec moe, read_gpt_oss_moe(config, draft));
  if (!config.contains("rope_scaling")) {  // else the reference's class would have a scaling
    QUIRE_RETURN_IF_ERROR(config.get_object("rope_parameters").status());
  }
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 150000.0));
  draft.make_layers({.mixer = draft.attention, .feed_forward = moe});
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 128));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, draft.num_layers, kGptOssPattern));
  QUIRE_RETURN_IF_ERROR(
      set_sliding_layers(config.where(), sliding, {.window = window}, spec.layers));
  return std::move(spec);
}

}  // namespace quire
