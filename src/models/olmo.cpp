#include "models/olmo.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr GgufKey kOlmoKeys[] = {{"attention.clamp_kqv", "clip_qkv"}};

}  // namespace

constexpr GgufForm kOlmoGguf = {.architecture = "olmo", .keys = kOlmoKeys, .paired_rows = true};

Result<DecoderSpec> olmo_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.norm_epsilon = 1e-5}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.weight = false;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_qkv_limit(config, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(spec);
}

}  // namespace quire
