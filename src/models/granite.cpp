#include "models/granite.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

constexpr GgufForm kGraniteGguf = {
    .architecture = "granite", .keys = kGraniteScaleKeys, .paired_rows = true};

Result<DecoderDraft> granite_draft(const JsonReader& config) {
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

  QUIRE_ASSIGN_OR_RETURN(const auto of_scores, config.find_double("attention_multiplier"));
  QUIRE_ASSIGN_OR_RETURN(const auto of_embeddings, config.find_double("embedding_multiplier"));
  QUIRE_ASSIGN_OR_RETURN(const auto of_residuals, config.find_double("residual_multiplier"));
  QUIRE_ASSIGN_OR_RETURN(const auto logits_divisor, config.find_double("logits_scaling"));
  draft.attention.scale = of_scores.value_or(1.0);
  spec.embedding_scale = of_embeddings.value_or(1.0);
  spec.logit_scale = 1.0 / logits_divisor.value_or(1.0);
  draft.make_layers({.mixer = draft.attention,
                     .feed_forward = draft.mlp,
                     .residual_scale = of_residuals.value_or(1.0)});
  return draft;
}

Result<DecoderSpec> granite_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, granite_draft(config));
  return std::move(draft.spec);
}

}  // namespace quire
