#include "models/olmo3.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kOlmo3Names[] = {
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_feedforward_layernorm.weight"},
};

constexpr std::int64_t kOlmo3Pattern = 4;  // every fourth layer sees all keys

constexpr GgufKey kOlmo3Keys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
};

}  // namespace

constexpr GgufForm kOlmo3Gguf = {
    .architecture = "olmo2", .when = GgufCondition{"attention.sliding_window"}, .keys = kOlmo3Keys};

Result<DecoderSpec> olmo3_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kOlmo3Names, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kWhole;
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rope_theta"));
  const double base = theta.value_or(500000.0);
  QUIRE_RETURN_IF_ERROR(read_ropes_by_layer(config, draft.rotary_dim,
                                            {.full_theta = base, .sliding_theta = base}, spec));
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, draft.num_layers, kOlmo3Pattern));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.mlp, .norms = NormPlacement::kAfter});
  QUIRE_RETURN_IF_ERROR(set_sliding_layers(
      config.where(), sliding,
      {.window = window, .full_rope = kFullRope, .sliding_rope = kSlidingRope}, spec.layers));
  return std::move(spec);
}

}  // namespace quire
