#include "models/gptj.h"

#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr TensorName kGptjNames[] = {
    {TensorRole::kEmbedding, "transformer.wte.weight"},
    {TensorRole::kFinalNorm, "transformer.ln_f.weight"},
    {TensorRole::kFinalNormBias, "transformer.ln_f.bias"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kOutputBias, "lm_head.bias"},
    {TensorRole::kInputNorm, "transformer.h.{layer}.ln_1.weight"},
    {TensorRole::kInputNormBias, "transformer.h.{layer}.ln_1.bias"},
    {TensorRole::kQuery, "transformer.h.{layer}.attn.q_proj.weight"},
    {TensorRole::kKey, "transformer.h.{layer}.attn.k_proj.weight"},
    {TensorRole::kValue, "transformer.h.{layer}.attn.v_proj.weight"},
    {TensorRole::kAttentionOutput, "transformer.h.{layer}.attn.out_proj.weight"},
    {TensorRole::kUp, "transformer.h.{layer}.mlp.fc_in.weight"},
    {TensorRole::kDown, "transformer.h.{layer}.mlp.fc_out.weight"},
    {TensorRole::kUpBias, "transformer.h.{layer}.mlp.fc_in.bias"},
    {TensorRole::kDownBias, "transformer.h.{layer}.mlp.fc_out.bias"},
};

}  // namespace

Result<DecoderSpec> gptj_from_config(const JsonReader& own) {
  QUIRE_RETURN_IF_ERROR(
      refuse_keys(own, {"rope_scaling", "rope_parameters", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(const json::object keys,
                         with_usual_keys(own, {{"n_embd", "hidden_size"},
                                               {"n_head", "num_attention_heads"},
                                               {"n_layer", "num_hidden_layers"},
                                               {"n_positions", "max_position_embeddings"},
                                               {"n_inner", "intermediate_size"}}));
  const JsonReader config(keys, own.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.activation_key = "activation_function",
                                                     .activation = Activation::kGeluTanh,
                                                     .gated_mlp = false,
                                                     .norm_epsilon_key = "layer_norm_epsilon"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGptjNames};
  spec.norm.kind = NormKind::kLayer;
  spec.norm.bias = true;
  spec.output_bias = true;
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(const auto rotary_dim, config.find_int("rotary_dim"));
  const std::int64_t width = rotary_dim.value_or(64);
  if (width < 2 || width % 2 != 0 || width > draft.attention.head_dim) {
    return Status::bad_model(
        fmt::format("{}: rotary_dim is {}; expected an even number up to the {} of a head",
                    config.where(), width, draft.attention.head_dim));
  }
  RopeSpec rope;
  rope.rotary_dim = static_cast<std::int32_t>(width);
  rope.theta = 10000.0;
  spec.ropes.push_back(std::move(rope));
  const PlainMlpSpec mlp = draft.plain_mlp(true);
  draft.make_layers({.mixer = draft.attention, .feed_forward = mlp, .parallel = true});
  return std::move(spec);
}

}  // namespace quire
