#include "models/glm4_moe.h"

#include <utility>

#include "models/config_keys.h"
#include "models/deepseek_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr TensorName kGlm4MoeGgufNames[] = {
    {TensorRole::kMlpNorm, "blk.{layer}.post_attention_norm.weight"},
};

constexpr GgufSign kGlm4MoeSigns[] = {{"blk.0.attn_q_norm.weight", "use_qk_norm"}};

}  // namespace

constexpr GgufForm kGlm4MoeGguf = {
    .architecture = "glm4moe", .signs = kGlm4MoeSigns, .names = kGlm4MoeGgufNames, .mixture = true};

Result<DecoderSpec> glm4_moe_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.partial_rotary_factor = 0.5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kDeepseekTensorNames, .shared = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(draft.attention.query_key_value_bias,
                         read_flag(config, "attention_bias", false));
  QUIRE_ASSIGN_OR_RETURN(const bool normed, read_flag(config, "use_qk_norm", false));
  if (normed) draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_deepseek_moe(config,
                                                        {.intermediate_size = 1408,
                                                         .num_experts = 128,
                                                         .experts_per_token = 8,
                                                         .shared_experts = 1,
                                                         .weights_sum_to_one = true},
                                                        draft));
  use_biased_sigmoids(moe);
  QUIRE_RETURN_IF_ERROR(leave_out_draft_layers(config, draft));
  QUIRE_RETURN_IF_ERROR(
      make_deepseek_layers(config, 1, {.mixer = draft.attention, .feed_forward = moe}, draft));
  return std::move(spec);
}

}  // namespace quire
