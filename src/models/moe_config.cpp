#include "models/moe_config.h"

namespace quire {

Result<MoeSpec> read_moe(const JsonReader& config, const MoeKeys& keys, const DecoderDraft& draft) {
  MoeSpec moe;
  moe.activation = draft.mlp.activation;
  QUIRE_ASSIGN_OR_RETURN(auto num_experts, config.find_int("num_experts"));
  if (!num_experts) {
    QUIRE_ASSIGN_OR_RETURN(num_experts, config.find_int("num_local_experts"));
  }
  moe.num_experts = num_experts.value_or(keys.default_num_experts);
  QUIRE_ASSIGN_OR_RETURN(const auto per_token, config.find_int("num_experts_per_tok"));
  moe.experts_per_token = per_token.value_or(keys.default_experts_per_token);
  QUIRE_ASSIGN_OR_RETURN(const auto size, config.find_int(keys.intermediate_size));
  moe.intermediate_size = size.value_or(keys.default_intermediate_size);
  QUIRE_ASSIGN_OR_RETURN(const auto normed, config.find_bool("norm_topk_prob"));
  moe.weights_sum_to_one = normed.value_or(false);
  return moe;
}

}  // namespace quire
