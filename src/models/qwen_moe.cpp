#include "models/qwen_moe.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's, those of layers without a mixture among them.
constexpr TensorName kQwenMoeNames[] = {
    {TensorRole::kRouter, "model.layers.{layer}.mlp.gate.weight"},
    {TensorRole::kExpertGate, "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {TensorRole::kExpertUp, "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {TensorRole::kExpertDown, "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
    {TensorRole::kSharedGate, "model.layers.{layer}.mlp.shared_expert.gate_proj.weight"},
    {TensorRole::kSharedUp, "model.layers.{layer}.mlp.shared_expert.up_proj.weight"},
    {TensorRole::kSharedDown, "model.layers.{layer}.mlp.shared_expert.down_proj.weight"},
    {TensorRole::kSharedExpertGate, "model.layers.{layer}.mlp.shared_expert_gate.weight"},
};

// Windows are in no published model, and which layers have them changed between versions of the
// reference.
Status refuse_windows(const JsonReader& config, std::int64_t num_layers) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_sliding_window"}));
  QUIRE_ASSIGN_OR_RETURN(const auto types, read_layer_types(config, num_layers));
  if (types && std::ranges::find(*types, true) != types->end()) {
    return unsupported(config.where(), "layer_types", "sliding_attention");
  }
  return {};
}

Result<DecoderDraft> draft_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {}));
  QUIRE_RETURN_IF_ERROR(refuse_windows(config, draft.num_layers));
  draft.spec.names = {.own = kQwenMoeNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, draft.spec));
  return draft;
}

// Puts the MLP that is no mixture into the layers that `mlp_only_layers` names, and into those
// whose number, counted from one, is no multiple of `decoder_sparse_step`.
Status read_dense_layers(const JsonReader& config, const GatedMlpSpec& mlp,
                         std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const auto given_step, config.find_int("decoder_sparse_step"));
  const std::int64_t step = given_step.value_or(1);
  if (step < 1) {
    return Status::bad_model(
        fmt::format("{}: decoder_sparse_step is {}; expected 1 or more", config.where(), step));
  }
  for (std::int64_t i = 0; i < std::ssize(layers); ++i) {
    if ((i + 1) % step != 0) layers[static_cast<std::size_t>(i)].feed_forward = mlp;
  }
  const json::value* const dense = config.find("mlp_only_layers");
  if (dense == nullptr) return {};
  constexpr std::string_view kExpected = "a list of numbers of layers";
  if (!dense->is_array()) return config.type_error("mlp_only_layers", kExpected);
  for (const json::value& layer : dense->get_array()) {
    if (!layer.is_int64()) return config.type_error("mlp_only_layers", kExpected);
    const std::int64_t index = layer.get_int64();
    if (index < 0 || index >= std::ssize(layers)) {
      return Status::bad_model(fmt::format("{}: mlp_only_layers has {}; there are {} layers",
                                           config.where(), index, layers.size()));
    }
    layers[static_cast<std::size_t>(index)].feed_forward = mlp;
  }
  return {};
}

Result<DecoderSpec> finish(const JsonReader& config, DecoderDraft draft, const MoeSpec& moe) {
  draft.make_layers({.mixer = draft.attention, .feed_forward = moe});
  QUIRE_RETURN_IF_ERROR(read_dense_layers(config, draft.mlp, draft.spec.layers));
  return std::move(draft.spec);
}

constexpr GgufKey kQwen2MoeKeys[] = {
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
};

}  // namespace

constexpr GgufForm kQwen2MoeGguf = {
    .architecture = "qwen2moe", .keys = kQwen2MoeKeys, .mixture = true};

constexpr GgufForm kQwen3MoeGguf = {
    // The weights sum to one in every published model, and older files do not say so.
    .architecture = "qwen3moe",
    .settings = R"({"norm_topk_prob": true})",
    .mixture = true};

Result<DecoderSpec> qwen2_moe_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"attention_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_from_config(config));
  QUIRE_ASSIGN_OR_RETURN(const auto bias, config.find_bool("qkv_bias"));
  draft.attention.query_key_value_bias = bias.value_or(true);
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.default_intermediate_size = 1408,
                                                .default_num_experts = 60,
                                                .default_experts_per_token = 4},
                                               draft));
  QUIRE_ASSIGN_OR_RETURN(const auto shared, config.find_int("shared_expert_intermediate_size"));
  moe.shared_intermediate_size = shared.value_or(5632);
  moe.shared_gate = moe.shared_intermediate_size != 0;
  return finish(config, std::move(draft), moe);
}

Result<DecoderSpec> qwen3_moe_from_config(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, draft_from_config(config));
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  QUIRE_ASSIGN_OR_RETURN(const MoeSpec moe, read_moe(config,
                                                     {.default_intermediate_size = 768,
                                                      .default_num_experts = 128,
                                                      .default_experts_per_token = 8},
                                                     draft));
  return finish(config, std::move(draft), moe);
}

}  // namespace quire
