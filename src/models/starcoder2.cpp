#include "models/starcoder2.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kStarcoder2Names[] = {
    {TensorRole::kFinalNormBias, "model.norm.bias"},
    {TensorRole::kInputNormBias, "model.layers.{layer}.input_layernorm.bias"},
    {TensorRole::kMlpNormBias, "model.layers.{layer}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "model.layers.{layer}.mlp.c_fc.weight"},
    {TensorRole::kDown, "model.layers.{layer}.mlp.c_proj.weight"},
    {TensorRole::kUpBias, "model.layers.{layer}.mlp.c_fc.bias"},
    {TensorRole::kDownBias, "model.layers.{layer}.mlp.c_proj.bias"},
};

}  // namespace

constexpr GgufForm kStarcoder2Gguf = {.architecture = "starcoder2"};

Result<DecoderSpec> starcoder2_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation = Activation::kGeluTanh,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "norm_epsilon"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kStarcoder2Names, .shared = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "use_bias", true, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, 0));
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.plain_mlp(draft.attention.output_bias)});
  return std::move(spec);
}

}  // namespace quire
