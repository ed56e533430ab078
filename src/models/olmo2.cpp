#include "models/olmo2.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kOlmo2Names[] = {
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_feedforward_layernorm.weight"},
};

}  // namespace

constexpr GgufForm kOlmo2Gguf = {.architecture = "olmo2"};

Result<DecoderSpec> olmo2_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kOlmo2Names, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kWhole;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.mlp, .norms = NormPlacement::kAfter});
  return std::move(spec);
}

}  // namespace quire
