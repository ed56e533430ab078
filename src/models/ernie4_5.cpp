#include "models/ernie4_5.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

constexpr GgufForm kErnie4_5Gguf = {.architecture = "ernie4_5"};

Result<DecoderSpec> ernie4_5_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.head_dim = 128, .tie_word_embeddings = true}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "use_bias", false, draft.attention));
  draft.mlp.bias = draft.attention.output_bias;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 500000.0));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
