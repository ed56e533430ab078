#include "models/helium.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> helium_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 128}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(draft.attention.query_key_value_bias,
                         read_flag(config, "attention_bias", false));
  QUIRE_ASSIGN_OR_RETURN(draft.mlp.bias, read_flag(config, "mlp_bias", false));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 100000.0));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
