#include "models/mistral.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// All, with a window in every layer, or none.
Result<DecoderSpec> read_mistral(const JsonReader& config, const ConfigDefaults& defaults = {},
                                 std::int32_t default_window = 4096) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, defaults));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  // Later models say null, which is none; the first left the key out.
  QUIRE_ASSIGN_OR_RETURN(draft.attention.window, read_sliding_window(config, default_window));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

constexpr GgufKey kMinistral3Keys[] = {
    {"attention.temperature_scale", "rope_scaling.llama_4_scaling_beta"},
    {"rope.scaling.yarn_log_multiplier", ""},
};
constexpr GgufKey kMistralKeys[] = {{"attention.sliding_window", "sliding_window"}};

}  // namespace

constexpr GgufForm kMinistral3Gguf = {
    .architecture = "mistral3",
    .keys = kMinistral3Keys,
    .settings = R"({"rope_parameters": {"rope_type": "default"}})",
    .paired_rows = true};

constexpr GgufForm kMistralGguf = {.architecture = "llama",
                                   .when = GgufCondition{"attention.sliding_window"},
                                   .keys = kMistralKeys,
                                   .paired_rows = true};

Result<DecoderSpec> mistral_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, rope_object(config));
  QUIRE_RETURN_IF_ERROR(refuse_keys(rope, {"llama_4_scaling_beta"}));
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

Result<DecoderSpec> ministral3_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"layer_types"}));
  if (!config.contains("rope_scaling")) {  // else the reference's class would have a scaling
    QUIRE_RETURN_IF_ERROR(config.get_object("rope_parameters").status());
  }
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_mistral(config, {.head_dim = 128}, 0));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, rope_object(config));
  QUIRE_ASSIGN_OR_RETURN(const auto growth, rope.find_double("llama_4_scaling_beta"));
  if (!growth) return spec;
  QUIRE_ASSIGN_OR_RETURN(const double interval,
                         rope.get_double("original_max_position_embeddings"));
  for (LayerSpec& layer : spec.layers) {
    layer.attention().query_scale = PositionScale{.growth = static_cast<float>(*growth),
                                                  .interval = static_cast<float>(interval)};
  }
  return spec;
}

}  // namespace quire
