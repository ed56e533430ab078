#include "models/minimax_m2.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kMinimaxM2Names[] = {
    {TensorRole::kRouter, "model.layers.{layer}.block_sparse_moe.gate.weight"},
    {TensorRole::kRouterBias, "model.layers.{layer}.block_sparse_moe.e_score_correction_bias"},
    {TensorRole::kExpertGate, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight"},
};

// What published files say beyond the reference's keys: as it is in all of them, or refused.
Status check_minimax_keys(const JsonReader& config) {
  for (const std::string_view key : {"use_qk_norm", "use_routing_bias"}) {
    QUIRE_ASSIGN_OR_RETURN(const bool on, read_flag(config, key, true));
    if (!on) return unsupported(config.where(), key, "false");
  }
  for (const auto& [key, only] :
       {std::pair{"qk_norm_type", "per_layer"}, {"scoring_func", "sigmoid"}}) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_string(key));
    if (value.value_or(only) != only) return unsupported(config.where(), key, *value);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto shared, config.find_int("shared_intermediate_size"));
  if (shared.value_or(0) != 0) {
    return unsupported(config.where(), "shared_intermediate_size", fmt::format("{}", *shared));
  }
  const json::value* const types = config.find("attn_type_list");
  if (types == nullptr) return {};
  if (!types->is_array()) return config.type_error("attn_type_list", "a list of numbers");
  const bool full = std::ranges::all_of(
      types->get_array(), [](const json::value& type) { return type == json::value(1); });
  return full ? Status() : unsupported(config.where(), "attn_type_list", json::serialize(*types));
}

// In published files `rotary_dim`, where others have a factor.
Status read_minimax_rotary_dim(const JsonReader& config, DecoderDraft& draft) {
  QUIRE_ASSIGN_OR_RETURN(const auto dim, config.find_int("rotary_dim"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, rope_object(config));
  constexpr std::string_view kFactor = "partial_rotary_factor";
  if (!dim || config.contains(kFactor) || rope.contains(kFactor)) return {};
  if (*dim < 2 || *dim > draft.attention.head_dim || *dim % 2 != 0) {
    return Status::bad_model(
        fmt::format("{}: rotary_dim is {}; expected an even number up to head_dim {}",
                    config.where(), *dim, draft.attention.head_dim));
  }
  draft.rotary_dim = *dim;
  return {};
}

constexpr GgufKey kMinimaxM2Keys[] = {
    {"expert_feed_forward_length", "intermediate_size"},
};

}  // namespace

constexpr GgufForm kMinimaxM2Gguf = {
    .architecture = "minimax-m2", .keys = kMinimaxM2Keys, .mixture = true};

Result<DecoderSpec> minimax_m2_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(config, {"attention_bias", "mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_RETURN_IF_ERROR(check_minimax_keys(config));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.head_dim = 128, .partial_rotary_factor = 1}));
  QUIRE_RETURN_IF_ERROR(read_minimax_rotary_dim(config, draft));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kMinimaxM2Names, .shared = kLlamaTensorNames};
  draft.attention.query_key_norm = QueryKeyNorm::kWhole;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 5e6));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.intermediate_size = "intermediate_size",
                                                .default_num_experts = 256,
                                                .default_experts_per_token = 8},
                                               draft));
  moe.routing = {.score = RouterScore::kSigmoid, .weights_sum_to_one = true};
  moe.choice_bias = ChoiceBias::kVector;
  draft.make_layers({.mixer = draft.attention, .feed_forward = moe});
  return std::move(spec);
}

}  // namespace quire
