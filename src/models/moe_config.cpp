#include "models/moe_config.h"

#include "models/config_keys.h"
#include "models/size_check.h"

namespace quire {

Result<MoeSpec> read_moe(const JsonReader& config, const MoeKeys& keys, const DecoderDraft& draft) {
  MoeSpec moe;
  moe.activation = draft.mlp.activation;
  QUIRE_ASSIGN_OR_RETURN(auto num_experts, config.find_int(keys.num_experts));
  if (!num_experts) {
    QUIRE_ASSIGN_OR_RETURN(num_experts, config.find_int("num_local_experts"));
  }
  moe.num_experts = num_experts.value_or(keys.default_num_experts);
  QUIRE_ASSIGN_OR_RETURN(const auto per_token, config.find_int(keys.experts_per_token));
  moe.experts_per_token = per_token.value_or(keys.default_experts_per_token);
  QUIRE_ASSIGN_OR_RETURN(const auto size, config.find_int(keys.intermediate_size));
  moe.intermediate_size = size.value_or(keys.default_intermediate_size);
  QUIRE_ASSIGN_OR_RETURN(moe.routing.weights_sum_to_one,
                         read_flag(config, "norm_topk_prob", keys.default_weights_sum_to_one));
  return moe;
}

Status set_shared_experts(std::string_view where, std::int64_t count, MoeSpec& moe) {
  if (count == 0) return {};
  QUIRE_RETURN_IF_ERROR(
      check_sizes(where, {{"the intermediate size of experts", moe.intermediate_size},
                          {"the number of shared experts", count}}));
  moe.shared_intermediate_size = count * moe.intermediate_size;
  return {};
}

}  // namespace quire
