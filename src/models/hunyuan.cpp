#include "models/hunyuan.h"

#include <cmath>
#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kHunyuanNames[] = {
    {TensorRole::kQueryNorm, "model.layers.{layer}.self_attn.query_layernorm.weight"},
    {TensorRole::kKeyNorm, "model.layers.{layer}.self_attn.key_layernorm.weight"},
};

// What these files call dynamic scaling is a base that `alpha` stretches once and for all.
Status read_hunyuan_rope(const JsonReader& config, std::int64_t rotary_dim, DecoderSpec& spec) {
  const std::int64_t max_positions = spec.max_position_embeddings;
  QUIRE_RETURN_IF_ERROR(read_rope(config, rotary_dim, spec));
  RopeSpec& rope = spec.ropes[0];
  if (rope.scaling != RopeScaling::kDynamic) return {};
  QUIRE_ASSIGN_OR_RETURN(const JsonReader object, rope_object(config));
  QUIRE_ASSIGN_OR_RETURN(const auto alpha, object.find_double("alpha"));
  if (alpha.value_or(0.0) == 0.0) return {};
  const auto width = static_cast<double>(rotary_dim);
  rope.theta *= std::pow(*alpha, width / (width - 2.0));
  rope.scaling = RopeScaling::kNone;
  spec.max_position_embeddings = max_positions;
  return {};
}

}  // namespace

constexpr GgufForm kHunyuanGguf = {.architecture = "hunyuan-dense"};

Result<DecoderSpec> hunyuan_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(config, {"mlp_bias", "use_cla", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kHunyuanNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kRotatedHeads;
  QUIRE_RETURN_IF_ERROR(read_hunyuan_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
