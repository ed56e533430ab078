// What the config.json of families with a mixture of experts has in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "models/moe_spec.h"
#include "models/spec.h"

namespace quire {

// Where a family's configurations have their sizes, and what they may leave out.
struct MoeKeys {
  std::string_view intermediate_size = "moe_intermediate_size";
  std::string_view num_experts = "num_experts";  // under num_local_experts in all families
  std::string_view experts_per_token = "num_experts_per_tok";
  std::int64_t default_intermediate_size = 0;
  std::int64_t default_num_experts = 0;
  std::int64_t default_experts_per_token = 0;
  bool default_weights_sum_to_one = false;
};

// The number of experts, under either of its names, those for each token and their size, with the
// activation of `draft`. `norm_topk_prob`: whether a token's weights are normed to one.
Result<MoeSpec> read_moe(const JsonReader& config, const MoeKeys& keys, const DecoderDraft& draft);

// `count` shared experts, which are computed as one, `count` times as wide as an expert. kBadModel
// where that is no size.
Status set_shared_experts(std::string_view where, std::int64_t count, MoeSpec& moe);

}  // namespace quire
