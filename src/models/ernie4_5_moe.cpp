#include "models/ernie4_5_moe.h"

#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kErnieMoeNames[] = {
    {TensorRole::kRouter, "model.layers.{layer}.mlp.gate.weight"},
    {TensorRole::kRouterBias, "model.layers.{layer}.mlp.moe_statics.e_score_correction_bias"},
    {TensorRole::kExpertGate, "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
    {TensorRole::kSharedGate, "model.layers.{layer}.mlp.shared_experts.gate_proj.weight"},
    {TensorRole::kSharedUp, "model.layers.{layer}.mlp.shared_experts.up_proj.weight"},
    {TensorRole::kSharedDown, "model.layers.{layer}.mlp.shared_experts.down_proj.weight"},
};

// A mixture in every `moe_layer_interval`th layer from `moe_layer_start_index` to
// `moe_layer_end_index`, -1 for the last.
Status place_ernie_mixtures(const JsonReader& config, const MoeSpec& moe,
                            std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const auto interval, config.find_int("moe_layer_interval"));
  QUIRE_ASSIGN_OR_RETURN(const auto start, config.find_int("moe_layer_start_index"));
  QUIRE_ASSIGN_OR_RETURN(const auto end, config.find_int("moe_layer_end_index"));
  if (interval.value_or(1) < 1) {
    return Status::bad_model(
        fmt::format("{}: moe_layer_interval is {}; expected 1 or more", config.where(), *interval));
  }
  const std::int64_t last = end.value_or(-1) == -1 ? std::ssize(layers) - 1 : *end;
  for (std::int64_t i = 0; i < std::ssize(layers); ++i) {
    if (i < start.value_or(1) || i > last || (i + 1) % interval.value_or(1) != 0) continue;
    layers[static_cast<std::size_t>(i)].feed_forward = moe;
  }
  return {};
}

constexpr GgufKey kErnieMoeKeys[] = {
    {"interleave_moe_layer_step", "moe_layer_interval"},
    {"leading_dense_block_count", "moe_layer_start_index"},
};

}  // namespace

constexpr GgufForm kErnie4_5MoeGguf = {
    .architecture = "ernie4_5-moe", .keys = kErnieMoeKeys, .mixture = true};

Result<DecoderSpec> ernie4_5_moe_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kErnieMoeNames, .shared = kLlamaTensorNames};
  spec.unread_tensors = {"model.mtp_"};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 500000.0));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.num_experts = "moe_num_experts",
                                                .experts_per_token = "moe_k",
                                                .default_intermediate_size = 1536,
                                                .default_num_experts = 64,
                                                .default_experts_per_token = 6},
                                               draft));
  QUIRE_ASSIGN_OR_RETURN(const auto least, config.find_double("moe_norm_min"));
  moe.routing = {.weights_sum_to_one = true,
                 .min_weight_sum = static_cast<float>(least.value_or(1e-12))};
  moe.choice_bias = ChoiceBias::kRow;
  QUIRE_ASSIGN_OR_RETURN(const auto shared, config.find_int("moe_num_shared_experts"));
  QUIRE_RETURN_IF_ERROR(set_shared_experts(config.where(), shared.value_or(2), moe));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(place_ernie_mixtures(config, moe, spec.layers));
  return std::move(spec);
}

}  // namespace quire
