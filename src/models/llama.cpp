#include "models/llama.h"

#include "models/config_keys.h"
#include "models/gguf_keys.h"
#include "models/rope_config.h"

namespace quire {

Result<DecoderSpec> llama_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_common_config(config, {}));
  spec.architecture = "LlamaForCausalLM";
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_ASSIGN_OR_RETURN(const auto attention_bias, config.find_bool("attention_bias"));
  spec.query_key_value_bias = spec.attention_output_bias = attention_bias.value_or(false);
  QUIRE_ASSIGN_OR_RETURN(const auto mlp_bias, config.find_bool("mlp_bias"));
  spec.mlp_bias = mlp_bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(read_rope(config, spec));
  spec.layers = uniform_layers(spec.num_layers, 0);
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return spec;
}

Result<DecoderSpec> llama_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_common_gguf(file, "llama"));
  // GGUF's converter reorders the rows of q and k so that rotated pairs lie side by side.
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_gguf_window(file, "llama"));
  spec.layers = uniform_layers(spec.num_layers, window);
  QUIRE_RETURN_IF_ERROR(spec.validate(file.name()));
  return spec;
}

}  // namespace quire
