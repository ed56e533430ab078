#include "models/olmoe.h"

#include <utility>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kOlmoeNames[] = {
    {TensorRole::kRouter, "model.layers.{layer}.mlp.gate.weight"},
    {TensorRole::kExpertGate, "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
};

}  // namespace

constexpr GgufForm kOlmoeGguf = {.architecture = "olmoe", .mixture = true};

Result<DecoderSpec> olmoe_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kOlmoeNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kWhole;
  QUIRE_RETURN_IF_ERROR(read_qkv_limit(config, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(const MoeSpec moe, read_moe(config,
                                                     {.intermediate_size = "intermediate_size",
                                                      .default_num_experts = 64,
                                                      .default_experts_per_token = 8},
                                                     draft));
  draft.make_layers({.mixer = draft.attention, .feed_forward = moe});
  return std::move(spec);
}

}  // namespace quire
