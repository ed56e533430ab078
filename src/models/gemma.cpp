#include "models/gemma.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gemma_layers.h"
#include "models/rope_config.h"

namespace quire {
namespace {

constexpr std::int64_t kDefaultPattern = 6;  // every sixth layer sees all keys
constexpr std::int64_t kPatternOfGemma2 = 2;

// Of scores and logits, where the file says nothing.
struct SoftCaps {
  double scores = 0;
  double logits = 0;
};
constexpr SoftCaps kSoftCapsOfGemma2 = {.scores = 50.0, .logits = 30.0};

void set_common(DecoderDraft& draft) {
  draft.mlp.activation = Activation::kGeluTanh;
  draft.spec.embedding_scale = std::sqrt(static_cast<double>(draft.spec.hidden_size));
  draft.spec.round_embedding_scale = true;
}

// What they share; `hidden_activation` is tanh GELU in all of them, or another model's.
Result<DecoderDraft> draft_of_config(const JsonReader& config, const SoftCaps& caps) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.head_dim = 256,
                                                     .tie_word_embeddings = true,
                                                     .activation_key = "hidden_activation",
                                                     .activation = Activation::kGeluTanh,
                                                     .soft_caps = true,
                                                     .attention_soft_cap = caps.scores,
                                                     .logit_soft_cap = caps.logits}));
  if (draft.mlp.activation != Activation::kGeluTanh) {
    return unsupported(config.where(), "hidden_activation", "silu");
  }
  set_common(draft);
  draft.spec.norm.weight_offset = 1.0;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  return draft;
}

Status set_layers(const std::vector<bool>& sliding, std::int32_t window, std::string_view where,
                  DecoderDraft& draft) {
  draft.make_layers(
      {.mixer = draft.attention, .feed_forward = draft.mlp, .norms = NormPlacement::kAround});
  const bool two_ropes = draft.spec.ropes.size() > 1;
  return set_sliding_layers(where, sliding,
                            {.window = window,
                             .full_rope = kFullRope,
                             .sliding_rope = two_ropes ? kSlidingRope : kFullRope},
                            draft.spec.layers);
}

Status read_score_scale(const JsonReader& config, AttentionSpec& attention) {
  QUIRE_ASSIGN_OR_RETURN(const auto scalar, config.find_double("query_pre_attn_scalar"));
  attention.scale = 1.0 / std::sqrt(scalar.value_or(256.0));
  return {};
}

constexpr GgufKey kGemma2Keys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.key_length", "query_pre_attn_scalar"},
};
constexpr GgufKey kGemma3Keys[] = {
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
    {"attention.key_length", "query_pre_attn_scalar"},
};

// The only published sizes whose scale of scores is not the head's, known by their layers: GGUF has
// no key for it.
constexpr GgufForm kGemma2Gguf27B = {.architecture = "gemma2",
                                     .when = GgufCondition{"block_count", 46},
                                     .keys = std::span(kGemma2Keys).first(1),
                                     .settings = R"({"query_pre_attn_scalar": 144})"};
constexpr GgufForm kGemma3Gguf27B = {.architecture = "gemma3",
                                     .when = GgufCondition{"block_count", 62},
                                     .keys = std::span(kGemma3Keys).first(2),
                                     .settings = R"({"query_pre_attn_scalar": 168})"};

}  // namespace

constexpr GgufForm kGemmaGguf = {.architecture = "gemma"};

constexpr GgufForm kGemma2Gguf = {
    .architecture = "gemma2", .keys = kGemma2Keys, .also = &kGemma2Gguf27B};

constexpr GgufForm kGemma3Gguf = {
    .architecture = "gemma3", .keys = kGemma3Keys, .also = &kGemma3Gguf27B};

Result<DecoderSpec> gemma_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types"}));
  // The published files say "gelu", which means the tanh form, as the reference has it.
  QUIRE_ASSIGN_OR_RETURN(const auto activation, config.find_string("hidden_act"));
  if (activation.value_or("gelu") != "gelu" && *activation != "gelu_pytorch_tanh") {
    return unsupported(config.where(), "hidden_act", *activation);
  }
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_of_config(config, {}));
  draft.spec.names = {.own = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, draft.spec));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  return std::move(draft.spec);
}

Result<DecoderSpec> gemma2_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_of_config(config, kSoftCapsOfGemma2));
  draft.spec.names = {.own = kGemmaTensorNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_score_scale(config, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, draft.spec));
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, draft.num_layers, kPatternOfGemma2));
  QUIRE_RETURN_IF_ERROR(set_layers(sliding, window, config.where(), draft));
  return std::move(draft.spec);
}

Result<DecoderSpec> gemma3_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_of_config(config, {}));
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGemmaTensorNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_score_scale(config, draft.attention));
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rope_theta"));
  QUIRE_ASSIGN_OR_RETURN(const auto local_theta, config.find_double("rope_local_base_freq"));
  QUIRE_RETURN_IF_ERROR(read_ropes_by_layer(
      config, draft.rotary_dim,
      {.full_theta = theta.value_or(1e6), .sliding_theta = local_theta.value_or(10000.0)}, spec));

  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_sliding_window(config, 4096));
  QUIRE_ASSIGN_OR_RETURN(const auto sliding,
                         read_sliding_layers(config, draft.num_layers, kDefaultPattern));
  QUIRE_RETURN_IF_ERROR(set_layers(sliding, window, config.where(), draft));
  return std::move(spec);
}

}  // namespace quire
