#include "models/falcon.h"

#include <utility>

#include <fmt/format.h>

#include "models/bloom.h"
#include "models/config_keys.h"
#include "models/rope_config.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

constexpr double kFalconMaxBias = 8;  // of the linear biases

// The norms where both blocks have one.
constexpr TensorName kFalconTwoNorms[] = {
    {TensorRole::kInputNorm, "transformer.h.{layer}.ln_attn.weight"},
    {TensorRole::kInputNormBias, "transformer.h.{layer}.ln_attn.bias"},
    {TensorRole::kMlpNorm, "transformer.h.{layer}.ln_mlp.weight"},
    {TensorRole::kMlpNormBias, "transformer.h.{layer}.ln_mlp.bias"},
};

// How the layers are built, by generation.
struct FalconForm {
  bool grouped = false;  // `new_decoder_architecture`
  bool one_kv_head = false;
  bool parallel = false;
  bool two_norms = false;
};

Result<FalconForm> read_form(const JsonReader& config) {
  FalconForm form;
  QUIRE_ASSIGN_OR_RETURN(form.grouped, read_flag(config, "new_decoder_architecture", false));
  QUIRE_ASSIGN_OR_RETURN(const bool multi_query, read_flag(config, "multi_query", true));
  QUIRE_ASSIGN_OR_RETURN(const bool parallel, read_flag(config, "parallel_attn", true));
  QUIRE_ASSIGN_OR_RETURN(const auto norms, config.find_int("num_ln_in_parallel_attn"));
  if (form.grouped && !parallel) return unsupported(config.where(), "parallel_attn", "false");
  form.one_kv_head = multi_query && !form.grouped;
  form.parallel = parallel || form.grouped;
  form.two_norms = form.grouped && norms.value_or(2) == 2;
  if (norms && *norms != 1 && !form.two_norms) {
    return unsupported(config.where(), "num_ln_in_parallel_attn", fmt::format("{}", *norms));
  }
  return form;
}

constexpr GgufKey kFalconKeys[] = {
    {"attention.head_count_kv", "num_kv_heads"},
    {"feed_forward_length", "ffn_hidden_size"},
};

// Of the files of the second generation, in which the MLP's norm is the first.
constexpr TensorName kGroupedGgufNames[] = {
    {TensorRole::kInputNorm, "blk.{layer}.attn_norm_2.weight"},
    {TensorRole::kInputNormBias, "blk.{layer}.attn_norm_2.bias"},
    {TensorRole::kMlpNorm, "blk.{layer}.attn_norm.weight"},
    {TensorRole::kMlpNormBias, "blk.{layer}.attn_norm.bias"},
};

constexpr GgufForm kGroupedGguf = {.architecture = "falcon",
                                   .when = GgufCondition{.tensor = ".attn_norm_2.weight"},
                                   .keys = kFalconKeys,
                                   .names = kGroupedGgufNames,
                                   .settings = R"({"new_decoder_architecture": true})"};

}  // namespace

constexpr GgufForm kFalconGguf = {
    .architecture = "falcon", .keys = kFalconKeys, .also = &kGroupedGguf};

Result<DecoderSpec> falcon_from_config(const JsonReader& own) {
  QUIRE_ASSIGN_OR_RETURN(const FalconForm form, read_form(own));
  QUIRE_ASSIGN_OR_RETURN(
      json::object keys,
      with_usual_keys(own, {{"n_embed", "hidden_size"}, {"ffn_hidden_size", "intermediate_size"}}));
  const json::value* const kv_heads = own.find("num_kv_heads");
  if (form.grouped && kv_heads != nullptr) keys["num_key_value_heads"] = *kv_heads;
  if (form.one_kv_head) keys["num_key_value_heads"] = 1;
  if (!own.contains("max_position_embeddings")) keys["max_position_embeddings"] = 2048;
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(const auto epsilon, config.find_double("layer_norm_epsilon"));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.tie_word_embeddings = true,
                                                     .activation_key = "activation",
                                                     .activation = Activation::kGelu,
                                                     .gated_mlp = false,
                                                     .norm_epsilon = epsilon.value_or(1e-5)}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kBloomTensorNames};
  if (form.two_norms) spec.names = {.own = kFalconTwoNorms, .shared = kBloomTensorNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  AttentionSpec& attention = draft.attention;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "bias", false, attention));
  attention.fused_projections = true;
  attention.fused_by_head = !form.one_kv_head;
  QUIRE_ASSIGN_OR_RETURN(const bool biased, read_flag(config, "alibi", false));
  if (biased) {
    attention.rope = kNoRope;
    attention.alibi_slopes = alibi_slopes(attention.num_heads, kFalconMaxBias);
    // As the models were trained with: rounded, and added before scores are scaled.
    for (float& slope : attention.alibi_slopes) {
      slope = bf16_to_float(float_to_bf16(slope)) * static_cast<float>(attention.scale);
    }
  } else {
    QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec));
  }
  draft.make_layers({.mixer = attention,
                     .feed_forward = draft.plain_mlp(attention.output_bias),
                     .parallel = form.parallel,
                     .two_norms = form.two_norms});
  return std::move(spec);
}

}  // namespace quire
