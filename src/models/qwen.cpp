#include "models/qwen.h"

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gguf_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// `use_sliding_window` turns windows on: in the layers that `layer_types` names, else in those from
// `max_window_layers` on.
Result<std::vector<LayerSpec>> read_layers(const JsonReader& config, std::int64_t num_layers) {
  std::int32_t window = 0;
  QUIRE_ASSIGN_OR_RETURN(const auto use_window, config.find_bool("use_sliding_window"));
  if (use_window.value_or(false)) {
    QUIRE_ASSIGN_OR_RETURN(window, read_sliding_window(config, 4096));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto types, read_layer_types(config, num_layers));
  QUIRE_ASSIGN_OR_RETURN(const auto first, config.find_int("max_window_layers"));
  std::vector<LayerSpec> layers = uniform_layers(num_layers, 0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool sliding =
        types ? (*types)[i] : window != 0 && static_cast<std::int64_t>(i) >= first.value_or(28);
    if (!sliding) continue;
    if (window == 0) {
      return Status::bad_model(
          fmt::format("{}: layer_types has sliding_attention, but use_sliding_window is false or "
                      "sliding_window is null",
                      config.where()));
    }
    layers[i].window = window;
  }
  return layers;
}

Result<DecoderSpec> qwen_from_config(const JsonReader& config, const ConfigDefaults& defaults) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_common_config(config, defaults));
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, spec));
  QUIRE_ASSIGN_OR_RETURN(spec.layers, read_layers(config, spec.num_layers));
  return spec;
}

Result<DecoderSpec> qwen_from_gguf(const GgufFile& file, const std::string& prefix) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_common_gguf(file, prefix));
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_gguf_window(file, prefix));
  if (window != 0) {  // which layers have it, the file does not say
    return unsupported(file.name(), prefix + ".attention.sliding_window",
                       fmt::format("{}", window));
  }
  spec.layers = uniform_layers(spec.num_layers, 0);
  return spec;
}

}  // namespace

Result<DecoderSpec> qwen2_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, qwen_from_config(config, {}));
  spec.architecture = "Qwen2ForCausalLM";
  spec.query_key_value_bias = true;
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return spec;
}

Result<DecoderSpec> qwen2_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, qwen_from_gguf(file, "qwen2"));
  spec.query_key_value_bias = true;
  QUIRE_RETURN_IF_ERROR(spec.validate(file.name()));
  return spec;
}

Result<DecoderSpec> qwen3_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, qwen_from_config(config, {.head_dim = 128}));
  spec.architecture = "Qwen3ForCausalLM";
  spec.query_key_norm = true;
  QUIRE_ASSIGN_OR_RETURN(const auto bias, config.find_bool("attention_bias"));
  spec.query_key_value_bias = spec.attention_output_bias = bias.value_or(false);
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return spec;
}

Result<DecoderSpec> qwen3_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, qwen_from_gguf(file, "qwen3"));
  spec.query_key_norm = true;
  QUIRE_RETURN_IF_ERROR(spec.validate(file.name()));
  return spec;
}

}  // namespace quire
