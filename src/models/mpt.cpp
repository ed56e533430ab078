#include "models/mpt.h"

#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr TensorName kMptNames[] = {
    {TensorRole::kEmbedding, "transformer.wte.weight"},
    {TensorRole::kFinalNorm, "transformer.norm_f.weight"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "transformer.blocks.{layer}.norm_1.weight"},
    {TensorRole::kQueryKeyValue, "transformer.blocks.{layer}.attn.Wqkv.weight"},
    {TensorRole::kAttentionOutput, "transformer.blocks.{layer}.attn.out_proj.weight"},
    {TensorRole::kMlpNorm, "transformer.blocks.{layer}.norm_2.weight"},
    {TensorRole::kUp, "transformer.blocks.{layer}.ffn.up_proj.weight"},
    {TensorRole::kDown, "transformer.blocks.{layer}.ffn.down_proj.weight"},
};

// `attn_config`, which may be absent.
Status read_mpt_attention(const JsonReader& config, AttentionSpec& attention) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(config, {"prefix_lm", "qk_ln", "attn_uses_sequence_id", "rope"}));
  QUIRE_ASSIGN_OR_RETURN(const auto type, config.find_string("attn_type"));
  if (type.value_or("multihead_attention") != "multihead_attention") {
    return unsupported(config.where(), "attn_type", *type);
  }
  QUIRE_ASSIGN_OR_RETURN(const bool biased, read_flag(config, "alibi", true));
  if (!biased) return unsupported(config.where(), "alibi", "false");
  QUIRE_ASSIGN_OR_RETURN(const auto max_bias, config.find_double("alibi_bias_max"));
  if (!(max_bias.value_or(8) > 0 && max_bias.value_or(8) <= 1024)) {
    return Status::bad_model(fmt::format("{}: alibi_bias_max is {}; expected above 0, up to 1024",
                                         config.where(), *max_bias));
  }
  attention.alibi_slopes = alibi_slopes(attention.num_heads, max_bias.value_or(8));
  QUIRE_ASSIGN_OR_RETURN(const auto scale, config.find_double("softmax_scale"));
  attention.scale = scale.value_or(attention.scale);
  return read_qkv_limit(config, attention);
}

constexpr GgufKey kMptKeys[] = {
    {"attention.max_alibi_bias", "attn_config.alibi_bias_max"},
    {"attention.clamp_kqv", "attn_config.clip_qkv"},
};

}  // namespace

constexpr GgufForm kMptGguf = {.architecture = "mpt", .keys = kMptKeys};

Result<DecoderSpec> mpt_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(own, {"logit_scale"}));
  QUIRE_ASSIGN_OR_RETURN(const bool no_bias, read_flag(own, "no_bias", true));
  if (!no_bias) return unsupported(own.where(), "no_bias", "false");
  QUIRE_ASSIGN_OR_RETURN(const auto norm, own.find_string("norm_type"));
  if (norm && *norm != "low_precision_layernorm" && *norm != "layernorm") {
    return unsupported(own.where(), "norm_type", *norm);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto ratio, own.find_int("expansion_ratio"));
  if (ratio.value_or(4) != 4) {  // the reference has no other
    return unsupported(own.where(), "expansion_ratio", fmt::format("{}", *ratio));
  }
  QUIRE_ASSIGN_OR_RETURN(const json::object keys,
                         with_usual_keys(own, {{"d_model", "hidden_size"},
                                               {"n_heads", "num_attention_heads"},
                                               {"n_layers", "num_hidden_layers"},
                                               {"max_seq_len", "max_position_embeddings"}}));
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(const auto epsilon, config.find_double("layer_norm_epsilon"));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation = Activation::kGelu,
                                                     .gated_mlp = false,
                                                     .norm_epsilon = epsilon.value_or(1e-5)}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kMptNames};
  spec.norm.kind = NormKind::kLayer;
  draft.attention.rope = kNoRope;
  draft.attention.fused_projections = true;
  const json::object none;
  JsonReader attention(none, own.where());
  if (config.contains("attn_config")) {
    QUIRE_ASSIGN_OR_RETURN(attention, config.get_object("attn_config"));
  }
  QUIRE_RETURN_IF_ERROR(read_mpt_attention(attention, draft.attention));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.plain_mlp(false)});
  return std::move(spec);
}

}  // namespace quire
