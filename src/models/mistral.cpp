#include "models/mistral.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// Both, with a window in every layer.
Result<DecoderSpec> read_mistral(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  // Later models say null, which is none; the first left the key out.
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, 4096));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace

Result<DecoderSpec> mistral_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"layer_types"}));
  return read_mistral(config);
}

Result<DecoderSpec> ministral_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_mistral(config));
  QUIRE_ASSIGN_OR_RETURN(const auto types, read_layer_types(config, spec.num_layers()));
  if (types) {
    QUIRE_RETURN_IF_ERROR(set_sliding_layers(config.where(), *types,
                                             {.window = spec.attention().window}, spec.layers));
  }
  return spec;
}

}  // namespace quire
