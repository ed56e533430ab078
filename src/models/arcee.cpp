#include "models/arcee.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

constexpr GgufForm kArceeGguf = {.architecture = "arcee", .paired_rows = true};

Result<DecoderSpec> arcee_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.activation = Activation::kRelu2, .gated_mlp = false}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  QUIRE_ASSIGN_OR_RETURN(const bool mlp_bias, read_flag(config, "mlp_bias", false));
  const PlainMlpSpec mlp = draft.plain_mlp(mlp_bias);
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = mlp});
  return std::move(spec);
}

}  // namespace quire
