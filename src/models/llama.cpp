#include "models/llama.h"

#include <utility>

#include "models/config_keys.h"
#include "models/gguf_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> llama_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(const auto attention_bias, config.find_bool("attention_bias"));
  draft.attention.query_key_value_bias = attention_bias.value_or(false);
  draft.attention.output_bias = attention_bias.value_or(false);
  QUIRE_ASSIGN_OR_RETURN(const auto mlp_bias, config.find_bool("mlp_bias"));
  draft.mlp.bias = mlp_bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

Result<DecoderSpec> llama_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_gguf(file, "llama"));
  // GGUF's converter reorders the rows of q and k so that rotated pairs lie side by side.
  draft.spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_gguf_window(file, "llama"));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_ASSIGN_OR_RETURN(const auto experts, file.find_int("llama.expert_count"));
  if (experts.value_or(0) != 0) {  // Mixtral, which has no name of its own there
    QUIRE_ASSIGN_OR_RETURN(const MoeSpec moe, read_gguf_moe(file, "llama", draft, true));
    for (LayerSpec& layer : draft.spec.layers) layer.feed_forward = moe;
  }
  return std::move(draft.spec);
}

}  // namespace quire
