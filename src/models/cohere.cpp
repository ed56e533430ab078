#include "models/cohere.h"

#include <utility>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

namespace {

constexpr std::int64_t kCoherePattern = 4;  // every fourth layer of the second sees all keys

// Both generations, their layers still alike.
Result<DecoderSpec> read_cohere(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_qk_norm"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .norm_epsilon_key = "layer_norm_eps"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlamaTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(const auto scale, config.find_double("logit_scale"));
  spec.logit_scale = scale.value_or(0.0625);
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp, .parallel = true});
  return std::move(spec);
}

constexpr GgufKey kCohereKeys[] = {{"logit_scale", "logit_scale"}};
constexpr GgufSign kCohereSigns[] = {{"blk.0.attn_q_norm.weight", "use_qk_norm"}};

constexpr GgufKey kCohere2Keys[] = {
    {"logit_scale", "logit_scale"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
};

}  // namespace

constexpr GgufForm kCohereGguf = {
    .architecture = "command-r", .keys = kCohereKeys, .signs = kCohereSigns};

constexpr GgufForm kCohere2Gguf = {.architecture = "cohere2", .keys = kCohere2Keys};

Result<DecoderSpec> cohere_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  return read_cohere(config);
}

Result<DecoderSpec> cohere2_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, read_cohere(config));
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, spec.num_layers(), kCoherePattern));
  QUIRE_RETURN_IF_ERROR(set_sliding_layers(config.where(), sliding,
                                           {.window = window, .full_rope = kNoRope}, spec.layers));
  return spec;
}

}  // namespace quire
