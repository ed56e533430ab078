#include "models/llama.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

constexpr GgufForm kLlamaGguf = {.architecture = "llama", .paired_rows = true};

Result<DecoderSpec> llama_from_config(const JsonReader& config) {
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
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
