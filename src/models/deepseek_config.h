// What the config.json of DeepSeek's models has in common with those of families that adopted
// their mixtures of experts: names of tensors (those of latent attention, too), groups of experts,
// shared experts, first layers without a mixture, layers behind the last that draft tokens.
#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "models/moe_spec.h"
#include "models/spec.h"

namespace quire {

// The others are Llama's.
extern const std::span<const TensorName> kDeepseekTensorNames;

// What a family's configurations may leave out.
struct DeepseekMoeDefaults {
  std::int64_t intermediate_size = 0;
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t shared_experts = 0;
  std::int64_t num_groups = 1;
  std::int64_t groups_per_token = 1;
  double weight_scale = 1;
  bool weights_sum_to_one = false;
};

// The mixture by the keys `n_routed_experts`, `num_experts_per_tok`, `moe_intermediate_size`,
// `n_shared_experts`, `n_group`, `topk_group`, `routed_scaling_factor`, `norm_topk_prob`; softmax,
// groups by their best expert, no bias.
Result<MoeSpec> read_deepseek_moe(const JsonReader& config, const DeepseekMoeDefaults& defaults,
                                  const DecoderDraft& draft);

// DeepSeek-V3's routing on top of that: sigmoids, choices with a bias, groups by their two best.
void use_biased_sigmoids(MoeSpec& moe);

// A mixture in the layers of `draft` from `first_k_dense_replace` on, or else from `if_absent` on,
// and the draft's MLP in those before.
Status make_deepseek_layers(const JsonReader& config, std::int64_t if_absent,
                            const LayerSpec& layer, DecoderDraft& draft);

// `num_nextn_predict_layers` layers behind the last: they draft tokens, and are not read.
Status leave_out_draft_layers(const JsonReader& config, DecoderDraft& draft);

}  // namespace quire
