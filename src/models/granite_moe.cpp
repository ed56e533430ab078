#include "models/granite_moe.h"

#include <utility>

#include "models/config_keys.h"
#include "models/granite.h"
#include "models/moe_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kGraniteMoeNames[] = {
    {TensorRole::kRouter, "model.layers.{layer}.block_sparse_moe.router.layer.weight"},
    {TensorRole::kExpertGateUps, "model.layers.{layer}.block_sparse_moe.input_linear.weight"},
    {TensorRole::kExpertDowns, "model.layers.{layer}.block_sparse_moe.output_linear.weight"},
};

}  // namespace

constexpr GgufForm kGraniteMoeGguf = {
    .architecture = "granitemoe", .keys = kGraniteScaleKeys, .mixture = true, .paired_rows = true};

Result<DecoderSpec> granite_moe_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, granite_draft(config));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGraniteMoeNames, .shared = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.intermediate_size = "intermediate_size",
                                                .default_num_experts = 8,
                                                .default_experts_per_token = 2},
                                               draft));
  moe.routing.weights_sum_to_one = true;
  moe.tensors = ExpertTensors::kStackedGateUp;
  for (LayerSpec& layer : spec.layers) layer.feed_forward = moe;
  return std::move(spec);
}

}  // namespace quire
