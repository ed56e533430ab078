#include "models/ernie4_5.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> ernie4_5_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.head_dim = 128, .tie_word_embeddings = true}));
  DecoderSpec& spec = draft.spec;
  spec.architecture = "Ernie4_5ForCausalLM";
  spec.names = {.own = kLlamaTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(const bool bias, read_flag(config, "use_bias", false));
  draft.attention.query_key_value_bias = bias;
  draft.attention.output_bias = bias;
  draft.mlp.bias = bias;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 500000.0));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return std::move(spec);
}

}  // namespace quire
