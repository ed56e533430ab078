#include "models/phi3.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kPhi3Names[] = {
    {TensorRole::kQueryKeyValue, "model.layers.{layer}.self_attn.qkv_proj.weight"},
    {TensorRole::kGateUp, "model.layers.{layer}.mlp.gate_up_proj.weight"},
};

constexpr GgufKey kPhi3Keys[] = {{"attention.sliding_window", "sliding_window"}};

}  // namespace

constexpr GgufForm kPhi3Gguf = {.architecture = "phi3", .keys = kPhi3Keys};

Result<DecoderSpec> phi3_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.partial_rotary_factor = 1.0}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kPhi3Names, .shared = kLlamaTensorNames};
  draft.attention.fused_projections = true;
  draft.mlp.fused_gate_up = true;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, 0));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
