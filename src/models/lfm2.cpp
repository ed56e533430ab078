#include "models/lfm2.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"
#include "models/size_check.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kLfm2Names[] = {
    {TensorRole::kFinalNorm, "model.embedding_norm.weight"},
    {TensorRole::kInputNorm, "model.layers.{layer}.operator_norm.weight"},
    {TensorRole::kMlpNorm, "model.layers.{layer}.ffn_norm.weight"},
    {TensorRole::kQueryNorm, "model.layers.{layer}.self_attn.q_layernorm.weight"},
    {TensorRole::kKeyNorm, "model.layers.{layer}.self_attn.k_layernorm.weight"},
    {TensorRole::kAttentionOutput, "model.layers.{layer}.self_attn.out_proj.weight"},
    {TensorRole::kShortConvInput, "model.layers.{layer}.conv.in_proj.weight"},
    {TensorRole::kShortConvInputBias, "model.layers.{layer}.conv.in_proj.bias"},
    {TensorRole::kShortConv, "model.layers.{layer}.conv.conv.weight"},
    {TensorRole::kShortConvBias, "model.layers.{layer}.conv.conv.bias"},
    {TensorRole::kShortConvOutput, "model.layers.{layer}.conv.out_proj.weight"},
    {TensorRole::kShortConvOutputBias, "model.layers.{layer}.conv.out_proj.bias"},
    {TensorRole::kGate, "model.layers.{layer}.feed_forward.w1.weight"},
    {TensorRole::kUp, "model.layers.{layer}.feed_forward.w3.weight"},
    {TensorRole::kDown, "model.layers.{layer}.feed_forward.w2.weight"},
    {TensorRole::kRouter, "model.layers.{layer}.feed_forward.gate.weight"},
    {TensorRole::kRouterBias, "model.layers.{layer}.feed_forward.expert_bias"},
    {TensorRole::kExpertGate, "model.layers.{layer}.feed_forward.experts.{expert}.w1.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.feed_forward.experts.{expert}.w3.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.feed_forward.experts.{expert}.w2.weight"},
};

constexpr GgufKey kLfm2Keys[] = {
    {"shortconv.l_cache", "conv_L_cache"},
    {"attention.layer_norm_rms_epsilon", "norm_eps"},
    {"leading_dense_block_count", "num_dense_layers"},
};

constexpr TensorName kLfm2GgufNames[] = {{TensorRole::kFinalNorm, "token_embd_norm.weight"}};

// Two thirds of what the file says, times a multiplier, rounded up to whole blocks; or just that.
Result<std::int64_t> read_intermediate_size(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(const auto usual, config.find_int("intermediate_size"));
  QUIRE_ASSIGN_OR_RETURN(const auto own, config.find_int("block_ff_dim"));
  QUIRE_ASSIGN_OR_RETURN(const bool adjusted, read_flag(config, "block_auto_adjust_ff_dim", true));
  std::int64_t size = own.value_or(usual.value_or(12288));
  QUIRE_RETURN_IF_ERROR(check_sizes(config.where(), {{"block_ff_dim", size}}));
  if (!adjusted) return size;
  size = 2 * size / 3;
  constexpr std::string_view kMultiplier = "block_ffn_dim_multiplier";
  QUIRE_ASSIGN_OR_RETURN(const auto multiplier, config.find_double(kMultiplier));
  if (!multiplier && config.object().contains(kMultiplier)) return size;  // null
  QUIRE_ASSIGN_OR_RETURN(const auto multiple, config.find_int("block_multiple_of"));
  const std::int64_t block = multiple.value_or(256);
  if (!(multiplier.value_or(1.0) > 0 && multiplier.value_or(1.0) <= 1024)) {
    return Status::bad_model(
        fmt::format("{}: block_ffn_dim_multiplier is {}; expected above 0, "
                    "up to 1024",
                    config.where(), *multiplier));
  }
  QUIRE_RETURN_IF_ERROR(check_sizes(config.where(), {{"block_multiple_of", block}}));
  size = static_cast<std::int64_t>(multiplier.value_or(1.0) * static_cast<double>(size));
  return (size + block - 1) / block * block;
}

// Which layers have attention: `layer_types`, or `full_attn_idxs` of older files; else all.
Result<std::vector<bool>> read_attention_layers(const JsonReader& config, std::int64_t num_layers) {
  const json::value* types = config.find("layer_types");
  const json::value* indices = config.find("full_attn_idxs");
  std::vector<bool> attends(static_cast<std::size_t>(num_layers), true);
  if (types != nullptr) {
    if (!types->is_array() || std::ssize(types->get_array()) != num_layers) {
      return config.type_error("layer_types", fmt::format("a list of {} names", num_layers));
    }
    for (std::size_t i = 0; i < attends.size(); ++i) {
      const json::value& type = types->get_array()[i];
      if (!type.is_string()) return config.type_error("layer_types", "a list of names");
      attends[i] = type.get_string() == "full_attention";
      if (attends[i] || type.get_string() == "conv") continue;
      return unsupported(config.where(), "layer_types", type.get_string());
    }
  } else if (indices != nullptr) {
    if (!indices->is_array()) return config.type_error("full_attn_idxs", "a list of layers");
    attends.assign(attends.size(), false);
    for (const json::value& index : indices->get_array()) {
      if (!index.is_int64() || index.get_int64() < 0 || index.get_int64() >= num_layers) {
        return config.type_error("full_attn_idxs",
                                 fmt::format("a list of layers below {}", num_layers));
      }
      attends[static_cast<std::size_t>(index.get_int64())] = true;
    }
  }
  return attends;
}

// All but the kinds of feed-forwards: each layer has the draft's.
Result<DecoderDraft> read_lfm2(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(
      DecoderDraft draft,
      read_common_config(config, {.tie_word_embeddings = true, .norm_epsilon_key = "norm_eps"}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLfm2Names, .shared = kLlamaTensorNames};
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 1e6));
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  ShortConvSpec conv;
  QUIRE_ASSIGN_OR_RETURN(const auto taps, config.find_int("conv_L_cache"));
  conv.taps = taps.value_or(3);
  QUIRE_ASSIGN_OR_RETURN(conv.bias, read_flag(config, "conv_bias", false));
  QUIRE_ASSIGN_OR_RETURN(const auto attends, read_attention_layers(config, draft.num_layers));
  for (std::size_t i = 0; i < attends.size(); ++i) {
    if (!attends[i]) spec.layers[i].mixer = conv;
  }
  return draft;
}

// Of one more name for tied embeddings.
json::object with_usual_names(const JsonReader& file) {
  json::object usual = file.object();
  if (const json::value* tied = file.find("tie_embedding")) usual["tie_word_embeddings"] = *tied;
  return usual;
}

}  // namespace

constexpr GgufForm kLfm2Gguf = {.architecture = "lfm2",
                                .keys = kLfm2Keys,
                                .names = kLfm2GgufNames,
                                .settings = R"({"block_auto_adjust_ff_dim": false})",
                                .convolutions = true};

constexpr GgufForm kLfm2MoeGguf = {.architecture = "lfm2moe",
                                   .keys = kLfm2Keys,
                                   .names = kLfm2GgufNames,
                                   .mixture = true,
                                   .convolutions = true};

Result<DecoderSpec> lfm2_from_config(const JsonReader& file) {
  json::object usual = with_usual_names(file);
  QUIRE_ASSIGN_OR_RETURN(usual["intermediate_size"], read_intermediate_size(file));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_lfm2(JsonReader(usual, file.where())));
  return std::move(draft.spec);
}

Result<DecoderSpec> lfm2_moe_from_config(const JsonReader& file) {
  const json::object usual = with_usual_names(file);
  const JsonReader config(usual, file.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_lfm2(config));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.default_intermediate_size = 1792,
                                                .default_num_experts = 32,
                                                .default_experts_per_token = 4,
                                                .default_weights_sum_to_one = true},
                                               draft));
  moe.routing.score = RouterScore::kSigmoid;
  // The reference adds as much to the sum, which is a few tenths at least.
  moe.routing.min_weight_sum = 1e-6F;
  QUIRE_ASSIGN_OR_RETURN(const auto scale, config.find_double("routed_scaling_factor"));
  moe.routing.weight_scale = static_cast<float>(scale.value_or(1.0));
  QUIRE_ASSIGN_OR_RETURN(const bool biased, read_flag(config, "use_expert_bias", true));
  if (biased) moe.choice_bias = ChoiceBias::kVector;
  QUIRE_ASSIGN_OR_RETURN(const auto dense, config.find_int("num_dense_layers"));
  for (std::int64_t i = std::max<std::int64_t>(dense.value_or(2), 0); i < draft.num_layers; ++i) {
    draft.spec.layers[static_cast<std::size_t>(i)].feed_forward = moe;
  }
  return std::move(draft.spec);
}

}  // namespace quire
