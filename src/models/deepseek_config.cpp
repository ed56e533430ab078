#include "models/deepseek_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/moe_config.h"

namespace quire {
namespace {

constexpr TensorName kDeepseekNames[] = {
    {TensorRole::kQueryDown, "model.layers.{layer}.self_attn.q_a_proj.weight"},
    {TensorRole::kQueryDownBias, "model.layers.{layer}.self_attn.q_a_proj.bias"},
    {TensorRole::kQueryDownNorm, "model.layers.{layer}.self_attn.q_a_layernorm.weight"},
    {TensorRole::kQueryUp, "model.layers.{layer}.self_attn.q_b_proj.weight"},
    {TensorRole::kLatent, "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight"},
    {TensorRole::kLatentBias, "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.bias"},
    {TensorRole::kLatentNorm, "model.layers.{layer}.self_attn.kv_a_layernorm.weight"},
    {TensorRole::kLatentUp, "model.layers.{layer}.self_attn.kv_b_proj.weight"},
    {TensorRole::kRouter, "model.layers.{layer}.mlp.gate.weight"},
    {TensorRole::kRouterBias, "model.layers.{layer}.mlp.gate.e_score_correction_bias"},
    {TensorRole::kExpertGate, "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
    {TensorRole::kSharedGate, "model.layers.{layer}.mlp.shared_experts.gate_proj.weight"},
    {TensorRole::kSharedUp, "model.layers.{layer}.mlp.shared_experts.up_proj.weight"},
    {TensorRole::kSharedDown, "model.layers.{layer}.mlp.shared_experts.down_proj.weight"},
    {TensorRole::kStateProjection, "model.layers.{layer}.eh_proj.weight"},
    {TensorRole::kStateTokenNorm, "model.layers.{layer}.enorm.weight"},
    {TensorRole::kStateNorm, "model.layers.{layer}.hnorm.weight"},
    {TensorRole::kDraftNorm, "model.layers.{layer}.shared_head.norm.weight"},
};

// Far more than any model has.
constexpr std::int64_t kMaxGroups = 1 << 14;

Result<std::int32_t> read_groups(const JsonReader& config, std::string_view key,
                                 std::int64_t if_absent) {
  QUIRE_ASSIGN_OR_RETURN(const auto given, config.find_int(key));
  const std::int64_t groups = given.value_or(if_absent);
  if (groups >= 1 && groups <= kMaxGroups) return static_cast<std::int32_t>(groups);
  return Status::bad_model(
      fmt::format("{}: {} is {}; expected 1 to {}", config.where(), key, groups, kMaxGroups));
}

}  // namespace

constexpr std::span<const TensorName> kDeepseekTensorNames = kDeepseekNames;

Result<MoeSpec> read_deepseek_moe(const JsonReader& config, const DeepseekMoeDefaults& defaults,
                                  const DecoderDraft& draft) {
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe,
                         read_moe(config,
                                  {.num_experts = "n_routed_experts",
                                   .default_intermediate_size = defaults.intermediate_size,
                                   .default_num_experts = defaults.num_experts,
                                   .default_experts_per_token = defaults.experts_per_token,
                                   .default_weights_sum_to_one = defaults.weights_sum_to_one},
                                  draft));
  QUIRE_ASSIGN_OR_RETURN(moe.routing.num_groups,
                         read_groups(config, "n_group", defaults.num_groups));
  QUIRE_ASSIGN_OR_RETURN(moe.routing.groups_per_row,
                         read_groups(config, "topk_group", defaults.groups_per_token));
  QUIRE_ASSIGN_OR_RETURN(const auto scale, config.find_double("routed_scaling_factor"));
  moe.routing.weight_scale = static_cast<float>(scale.value_or(defaults.weight_scale));
  QUIRE_ASSIGN_OR_RETURN(const auto shared, config.find_int("n_shared_experts"));
  QUIRE_RETURN_IF_ERROR(
      set_shared_experts(config.where(), shared.value_or(defaults.shared_experts), moe));
  return moe;
}

void use_biased_sigmoids(MoeSpec& moe) {
  moe.routing.score = RouterScore::kSigmoid;
  moe.routing.group_rank = GroupRank::kSumOfTwoBest;
  // The reference adds as much to the sum, which no sum of sigmoids can tell apart.
  moe.routing.min_weight_sum = 1e-20F;
  moe.choice_bias = ChoiceBias::kVector;
}

Status make_deepseek_layers(const JsonReader& config, std::int64_t if_absent,
                            const LayerSpec& layer, DecoderDraft& draft) {
  QUIRE_ASSIGN_OR_RETURN(const auto given, config.find_int("first_k_dense_replace"));
  const std::int64_t first = given.value_or(if_absent);
  if (first < 0) {
    return Status::bad_model(
        fmt::format("{}: first_k_dense_replace is {}; expected 0 or more", config.where(), first));
  }
  draft.make_layers(layer);
  for (std::int64_t i = 0; i < std::min(first, draft.num_layers); ++i) {
    draft.spec.layers[static_cast<std::size_t>(i)].feed_forward = draft.mlp;
  }
  return {};
}

Status leave_out_draft_layers(const JsonReader& config, DecoderDraft& draft) {
  constexpr std::int64_t kMaxDraftLayers = 64;
  QUIRE_ASSIGN_OR_RETURN(const auto count, config.find_int("num_nextn_predict_layers"));
  if (count.value_or(0) < 0 || count.value_or(0) > kMaxDraftLayers) {
    return Status::bad_model(fmt::format("{}: num_nextn_predict_layers is {}; expected 0 to {}",
                                         config.where(), *count, kMaxDraftLayers));
  }
  draft.spec.num_draft_layers = count.value_or(0);
  for (std::int64_t i = 0; i < count.value_or(0); ++i) {
    draft.spec.unread_tensors.push_back(fmt::format("model.layers.{}.", draft.num_layers + i));
  }
  return {};
}

}  // namespace quire
