#include "models/llama4.h"

#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/moe_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kLlama4Names[] = {
    {TensorRole::kGate, "model.layers.{layer}.feed_forward.gate_proj.weight"},
    {TensorRole::kUp, "model.layers.{layer}.feed_forward.up_proj.weight"},
    {TensorRole::kDown, "model.layers.{layer}.feed_forward.down_proj.weight"},
    {TensorRole::kRouter, "model.layers.{layer}.feed_forward.router.weight"},
    {TensorRole::kExpertGateUps, "model.layers.{layer}.feed_forward.experts.gate_up_proj"},
    {TensorRole::kExpertDowns, "model.layers.{layer}.feed_forward.experts.down_proj"},
    {TensorRole::kSharedGate, "model.layers.{layer}.feed_forward.shared_expert.gate_proj.weight"},
    {TensorRole::kSharedUp, "model.layers.{layer}.feed_forward.shared_expert.up_proj.weight"},
    {TensorRole::kSharedDown, "model.layers.{layer}.feed_forward.shared_expert.down_proj.weight"},
};

Status bad_value(const JsonReader& config, std::string_view key, std::string_view expected) {
  return Status::bad_model(fmt::format("{}: {}: expected {}", config.where(), key, expected));
}

// `no_rope_layers`, for each layer whether it has positions (its values say the opposite of its
// name), or by `no_rope_layer_interval`.
Result<std::vector<bool>> read_rotated_layers(const JsonReader& config, std::int64_t num_layers) {
  QUIRE_ASSIGN_OR_RETURN(const auto given, config.find_int("no_rope_layer_interval"));
  const std::int64_t interval = given.value_or(4);
  if (interval < 1) return bad_value(config, "no_rope_layer_interval", "1 or more");
  const json::value* const list = config.find("no_rope_layers");
  if (list != nullptr && !list->is_array()) return config.type_error("no_rope_layers", "a list");
  const bool listed = list != nullptr && !list->get_array().empty();
  if (listed && std::cmp_less(list->get_array().size(), num_layers)) {
    return bad_value(config, "no_rope_layers", fmt::format("{} entries", num_layers));
  }
  std::vector<bool> rotated;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if (!listed) {
      rotated.push_back((i + 1) % interval != 0);
      continue;
    }
    const json::value& entry = list->get_array()[static_cast<std::size_t>(i)];
    if (!entry.is_int64()) return config.type_error("no_rope_layers", "a list of 0 and 1");
    rotated.push_back(entry.get_int64() != 0);
  }
  return rotated;
}

// `layer_types`, for each layer whether it sees the keys of its chunk alone; those with positions,
// where it is absent.
Result<std::vector<bool>> read_chunked_layers(const JsonReader& config,
                                              const std::vector<bool>& rotated) {
  const json::value* const list = config.find("layer_types");
  if (list == nullptr) return rotated;
  if (!list->is_array() || list->get_array().size() != rotated.size()) {
    return config.type_error("layer_types", fmt::format("a list of {} names", rotated.size()));
  }
  std::vector<bool> chunked;
  for (const json::value& type : list->get_array()) {
    const bool is_chunked = type == "chunked_attention";
    if (!is_chunked && type != "full_attention") {
      return unsupported(config.where(), "layer_types", json::serialize(type));
    }
    chunked.push_back(is_chunked);
  }
  return chunked;
}

Status set_attention(const JsonReader& config, std::vector<LayerSpec>& layers) {
  QUIRE_ASSIGN_OR_RETURN(const auto rotated, read_rotated_layers(config, std::ssize(layers)));
  QUIRE_ASSIGN_OR_RETURN(const auto chunked, read_chunked_layers(config, rotated));
  QUIRE_ASSIGN_OR_RETURN(const bool normed, read_flag(config, "use_qk_norm", true));
  QUIRE_ASSIGN_OR_RETURN(const bool tuned, read_flag(config, "attn_temperature_tuning", true));
  QUIRE_ASSIGN_OR_RETURN(const auto growth, config.find_double("attn_scale"));
  QUIRE_ASSIGN_OR_RETURN(const auto interval, config.find_double("floor_scale"));
  QUIRE_ASSIGN_OR_RETURN(const auto given_chunk, config.find_int("attention_chunk_size"));
  const std::int64_t chunk = given_chunk.value_or(8192);
  if (chunk < 1 || chunk > std::numeric_limits<std::int32_t>::max()) {
    return bad_value(config, "attention_chunk_size", "1 or more");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    AttentionSpec& attention = layers[i].attention();
    attention.chunk = chunked[i] ? static_cast<std::int32_t>(chunk) : 0;
    if (rotated[i]) {
      if (normed) attention.query_key_norm = QueryKeyNorm::kRotatedHeads;
      attention.query_key_norm_weights = false;
      continue;
    }
    attention.rope = kNoRope;
    if (!tuned) continue;
    attention.query_scale = PositionScale{.growth = static_cast<float>(growth.value_or(0.1)),
                                          .interval = static_cast<float>(interval.value_or(8192.0)),
                                          .offset = 1};
  }
  return {};
}

// The layers of `moe_layers`, or every `interleave_moe_layer_step`th, have a mixture.
Status set_mixtures(const JsonReader& config, const MoeSpec& moe, std::vector<LayerSpec>& layers) {
  const json::value* const list = config.find("moe_layers");
  if (list == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const auto given, config.find_int("interleave_moe_layer_step"));
    const std::int64_t step = given.value_or(1);
    if (step < 1) return bad_value(config, "interleave_moe_layer_step", "1 or more");
    for (std::int64_t i = 0; i < std::ssize(layers); ++i) {
      if ((i + 1) % step == 0) layers[static_cast<std::size_t>(i)].feed_forward = moe;
    }
    return {};
  }
  constexpr std::string_view kExpected = "a list of numbers of layers";
  if (!list->is_array()) return config.type_error("moe_layers", kExpected);
  for (const json::value& layer : list->get_array()) {
    if (!layer.is_int64()) return config.type_error("moe_layers", kExpected);
    const std::int64_t index = layer.get_int64();
    if (index < 0 || index >= std::ssize(layers)) {
      return bad_value(config, "moe_layers", fmt::format("numbers below {}", layers.size()));
    }
    layers[static_cast<std::size_t>(index)].feed_forward = moe;
  }
  return {};
}

constexpr GgufKey kLlama4Keys[] = {
    {"feed_forward_length", "intermediate_size_mlp"},
    {"expert_feed_forward_length", "intermediate_size"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
};

}  // namespace

constexpr GgufForm kLlama4Gguf = {.architecture = "llama4", .keys = kLlama4Keys, .mixture = true};

Result<DecoderSpec> llama4_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 128}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kLlama4Names, .shared = kLlamaTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  QUIRE_RETURN_IF_ERROR(read_rope(config, draft.rotary_dim, spec, 500000.0));
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_moe(config,
                                               {.intermediate_size = "intermediate_size",
                                                .default_num_experts = 16,
                                                .default_experts_per_token = 1},
                                               draft));
  moe.routing = {.score = RouterScore::kSigmoid};
  moe.weigh_inputs = true;
  moe.tensors = ExpertTensors::kTurnedGateUp;
  moe.shared_intermediate_size = moe.intermediate_size;
  moe.shared_gate = false;
  QUIRE_ASSIGN_OR_RETURN(const auto dense_size, config.find_int("intermediate_size_mlp"));
  draft.mlp.intermediate_size = dense_size.value_or(16384);
  draft.make_layers({.mixer = draft.attention, .feed_forward = draft.mlp});
  QUIRE_RETURN_IF_ERROR(set_attention(config, spec.layers));
  QUIRE_RETURN_IF_ERROR(set_mixtures(config, moe, spec.layers));
  return std::move(spec);
}

}  // namespace quire
