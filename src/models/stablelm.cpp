#include "models/stablelm.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kStableLmNames[] = {
    {TensorRole::kFinalNormBias, "model.norm.bias"},
    {TensorRole::kInputNormBias, "model.layers.{layer}.input_layernorm.bias"},
    {TensorRole::kMlpNormBias, "model.layers.{layer}.post_attention_layernorm.bias"},
};

constexpr GgufKey kStableLmKeys[] = {{"use_parallel_residual", "use_parallel_residual"}};
constexpr GgufSign kStableLmSigns[] = {{"blk.0.attn_q_norm.weight", "qk_layernorm"}};

}  // namespace

constexpr GgufForm kStableLmGguf = {
    .architecture = "stablelm", .keys = kStableLmKeys, .signs = kStableLmSigns};

Result<DecoderSpec> stablelm_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"qk_layernorm", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.norm_epsilon_key = "layer_norm_eps",
                                                     .partial_rotary_factor = 0.25}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kStableLmNames, .shared = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  QUIRE_ASSIGN_OR_RETURN(const auto bias, config.find_bool("use_qkv_bias"));
  draft.attention.query_key_value_bias = bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(const auto parallel, config.find_bool("use_parallel_residual"));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.mlp, .parallel = parallel.value_or(false)});
  return std::move(spec);
}

}  // namespace quire
