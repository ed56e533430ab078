#include "models/exaone4.h"

#include <utility>
#include <vector>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kExaone4Names[] = {
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_feedforward_layernorm.weight"},
};

constexpr std::int64_t kExaone4Pattern = 4;  // every fourth layer sees all keys

// Without a window, which the smaller models say by null, all layers see all keys and turn.
Status read_exaone4_layers(const JsonReader& config, std::vector<LayerSpec>& layers) {
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  std::vector<bool> sliding(layers.size(), false);
  if (window != 0 || config.contains("layer_types")) {
    QUIRE_ASSIGN_OR_RETURN(sliding, read_sliding_layers(config, num_layers, kExaone4Pattern));
  }
  return set_sliding_layers(config.where(), sliding,
                            {.window = window, .full_rope = window == 0 ? 0 : kNoRope}, layers);
}

constexpr GgufKey kExaone4Keys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
};

}  // namespace

constexpr GgufForm kExaone4Gguf = {.architecture = "exaone4", .keys = kExaone4Keys};

Result<DecoderSpec> exaone4_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kExaone4Names, .shared = kLlamaTensorNames};
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.mlp, .norms = NormPlacement::kAfter});
  QUIRE_RETURN_IF_ERROR(read_exaone4_layers(config, spec.layers));
  return std::move(spec);
}

}  // namespace quire
