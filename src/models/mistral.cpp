#include "models/mistral.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> mistral_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.architecture = "MistralForCausalLM";
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  // Later models say null, which is none; the first left the key out.
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, 4096));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return std::move(spec);
}

}  // namespace quire
