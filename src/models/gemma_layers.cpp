#include "models/gemma_layers.h"

#include <cmath>
#include <iterator>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "models/config_keys.h"

namespace quire {
namespace {

constexpr std::string_view kMlpSize = "intermediate_size";
constexpr std::string_view kKvHeads = "num_key_value_heads";

constexpr TensorName kGemmaNames[] = {
    {TensorRole::kAttentionOutputNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNorm, "model.layers.{layer}.pre_feedforward_layernorm.weight"},
    {TensorRole::kMlpOutputNorm, "model.layers.{layer}.post_feedforward_layernorm.weight"},
    {TensorRole::kPerLayerEmbedding, "model.embed_tokens_per_layer.weight"},
    {TensorRole::kPerLayerProjection, "model.per_layer_model_projection.weight"},
    {TensorRole::kPerLayerProjectionNorm, "model.per_layer_projection_norm.weight"},
    {TensorRole::kPerLayerGate, "model.layers.{layer}.per_layer_input_gate.weight"},
    {TensorRole::kPerLayerOutput, "model.layers.{layer}.per_layer_projection.weight"},
    {TensorRole::kPerLayerOutputNorm, "model.layers.{layer}.post_per_layer_input_norm.weight"},
    {TensorRole::kAltUpProjections, "model.altup_projections.{expert}.weight"},
    {TensorRole::kAltUpUnembeddings, "model.altup_unembed_projections.{expert}.weight"},
    {TensorRole::kAltUpRouter, "model.layers.{layer}.altup.modality_router.weight"},
    {TensorRole::kAltUpRouterNorm, "model.layers.{layer}.altup.router_norm.weight"},
    {TensorRole::kAltUpPredict, "model.layers.{layer}.altup.prediction_coefs.weight"},
    {TensorRole::kAltUpCorrect, "model.layers.{layer}.altup.correction_coefs.weight"},
    {TensorRole::kAltUpScale, "model.layers.{layer}.altup.correct_output_scale"},
    {TensorRole::kLaurelLeft, "model.layers.{layer}.laurel.linear_left.weight"},
    {TensorRole::kLaurelRight, "model.layers.{layer}.laurel.linear_right.weight"},
    {TensorRole::kLaurelNorm, "model.layers.{layer}.laurel.post_laurel_norm.weight"},
    {TensorRole::kLayerScale, "model.layers.{layer}.layer_scalar"},
};

}  // namespace

constexpr std::span<const TensorName> kGemmaTensorNames = kGemmaNames;

Status set_normed_heads(const JsonReader& config, DecoderDraft& draft) {
  if (draft.mlp.activation != Activation::kGeluTanh) {
    return unsupported(config.where(), "hidden_activation", "silu");
  }
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kGemmaTensorNames, .shared = kLlamaTensorNames};
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  spec.round_embedding_scale = true;
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  draft.attention.value_norm = true;
  draft.attention.scale = 1.0;
  return read_attention_bias(config, "attention_bias", false, draft.attention);
}

Result<PerLayerSpec> read_per_layer(const JsonReader& config, Activation activation) {
  constexpr std::string_view kWidth = "hidden_size_per_layer_input";
  QUIRE_ASSIGN_OR_RETURN(const auto width, config.find_int(kWidth));
  QUIRE_ASSIGN_OR_RETURN(const auto vocab_size, config.find_int("vocab_size_per_layer_input"));
  // Null is none.
  return PerLayerSpec{.width = config.object().contains(kWidth) ? width.value_or(0) : 256,
                      .vocab_size = vocab_size.value_or(262144),
                      .activation = activation};
}

json::object with_first_numbers(const JsonReader& config) {
  json::object object = config.object();
  for (const std::string_view key : {kMlpSize, kKvHeads}) {
    json::value* const value = object.if_contains(key);
    if (value == nullptr || !value->is_array() || value->get_array().empty()) continue;
    *value = json::value(value->get_array()[0]);
  }
  return object;
}

Status set_mlp_sizes(const JsonReader& config, std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const auto sizes,
                         read_layer_numbers(config, kMlpSize, std::ssize(layers)));
  for (std::size_t i = 0; sizes && i < layers.size(); ++i) {
    const double size = sizes->at(i);
    if (!(size >= 1 && size <= 1 << 24 && size == std::floor(size))) {
      return config.type_error(kMlpSize, "a whole number from 1 to 2^24 for each layer");
    }
    std::get<GatedMlpSpec>(layers[i].feed_forward).intermediate_size =
        static_cast<std::int64_t>(size);
  }
  return {};
}

Status share_keys(const JsonReader& config, const std::vector<bool>& sliding,
                  std::int64_t if_absent, DecoderSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const auto said, config.find_int("num_kv_shared_layers"));
  const std::int64_t shared = said.value_or(if_absent);
  const std::int64_t first = spec.num_layers() - shared;
  if (first < 1 || shared < 0) {
    return Status::bad_model(fmt::format("{}: num_kv_shared_layers is {}; expected 0 to {}",
                                         config.where(), shared, spec.num_layers() - 1));
  }
  for (auto i = static_cast<std::size_t>(first); i < sliding.size(); ++i) {
    std::int64_t source = first - 1;
    while (source >= 0 && sliding[static_cast<std::size_t>(source)] != sliding[i]) --source;
    if (source < 0) {
      return Status::bad_model(fmt::format(
          "{}: layer {} shares the keys of an earlier layer of its kind, and there is none",
          config.where(), i));
    }
    spec.layers[i].attention().kv_layer = static_cast<std::int32_t>(source);
    for (const char what : {'k', 'v'}) {
      spec.unread_tensors.push_back(fmt::format("model.layers.{}.self_attn.{}_", i, what));
    }
  }
  return {};
}

}  // namespace quire
