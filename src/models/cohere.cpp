#include "models/cohere.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> cohere_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_qk_norm", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .norm_epsilon_key = "layer_norm_eps"}));
  DecoderSpec& spec = draft.spec;
  spec.architecture = "CohereForCausalLM";
  spec.names = {.own = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(const auto scale, config.find_double("logit_scale"));
  spec.logit_scale = scale.value_or(0.0625);
  QUIRE_ASSIGN_OR_RETURN(const auto bias, config.find_bool("attention_bias"));
  draft.attention.query_key_value_bias = bias.value_or(false);
  draft.attention.output_bias = bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp, .parallel = true});
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return std::move(spec);
}

}  // namespace quire
