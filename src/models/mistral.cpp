#include "models/mistral.h"

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> mistral_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_common_config(config, {}));
  spec.architecture = "MistralForCausalLM";
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, spec));
  // Later models say null, which is none; the first left the key out.
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  spec.layers = uniform_layers(spec.num_layers, window);
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return spec;
}

}  // namespace quire
