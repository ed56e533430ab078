#include "models/mixtral.h"

#include <utility>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kMixtralNames[] = {
    {TensorRole::kRouter, "model.layers.{layer}.block_sparse_moe.gate.weight"},
    {TensorRole::kExpertGate, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight"},
};

constexpr GgufKey kMixtralKeys[] = {
    {"expert_feed_forward_length", "intermediate_size"},
    {"attention.sliding_window", "sliding_window"},
};

}  // namespace

constexpr GgufForm kMixtralGguf = {.architecture = "llama",
                                   .when = GgufCondition{"expert_count"},
                                   .keys = kMixtralKeys,
                                   .mixture = true,
                                   .paired_rows = true};

Result<DecoderSpec> mixtral_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kMixtralNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 1e6));
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, 0));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.intermediate_size = "intermediate_size",
                                                .default_num_experts = 8,
                                                .default_experts_per_token = 2},
                                               draft));
  moe.routing.weights_sum_to_one = true;
  draft.make_layers({.mixer = draft.attention, .feed_forward = moe});
  return std::move(spec);
}

}  // namespace quire
