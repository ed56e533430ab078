#include "models/cwm.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> cwm_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "attention_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 128}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  if (!config.contains("rope_scaling")) {  // else the reference's class would have a scaling
    QUIRE_RETURN_IF_ERROR(config.get_object("rope_parameters").status());
  }
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 1e6));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 8192));
  QUIRE_ASSIGN_OR_RETURN(auto sliding, read_layer_types(config, draft.num_layers));
  if (!sliding) {  // the first of four layers sees all keys
    sliding.emplace();
    for (std::int64_t i = 0; i < draft.num_layers; ++i) sliding->push_back(i % 4 != 0);
  }
  QUIRE_RETURN_IF_ERROR(
      set_sliding_layers(config.where(), *sliding, {.window = window}, spec.layers));
  return std::move(spec);
}

}  // namespace quire
