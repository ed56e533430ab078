#include "models/config_keys.h"

#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "models/rope_config.h"
#include "models/size_check.h"

namespace quire {

namespace {

constexpr TensorName kLlamaNames[] = {
    {TensorRole::kEmbedding, "model.embed_tokens.weight"},
    {TensorRole::kFinalNorm, "model.norm.weight"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "model.layers.{layer}.input_layernorm.weight"},
    {TensorRole::kQuery, "model.layers.{layer}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "model.layers.{layer}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "model.layers.{layer}.self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "model.layers.{layer}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "model.layers.{layer}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "model.layers.{layer}.self_attn.v_proj.bias"},
    {TensorRole::kQueryNorm, "model.layers.{layer}.self_attn.q_norm.weight"},
    {TensorRole::kKeyNorm, "model.layers.{layer}.self_attn.k_norm.weight"},
    {TensorRole::kAttentionOutput, "model.layers.{layer}.self_attn.o_proj.weight"},
    {TensorRole::kAttentionBias, "model.layers.{layer}.self_attn.o_proj.bias"},
    {TensorRole::kMlpNorm, "model.layers.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kGate, "model.layers.{layer}.mlp.gate_proj.weight"},
    {TensorRole::kUp, "model.layers.{layer}.mlp.up_proj.weight"},
    {TensorRole::kDown, "model.layers.{layer}.mlp.down_proj.weight"},
    {TensorRole::kGateBias, "model.layers.{layer}.mlp.gate_proj.bias"},
    {TensorRole::kUpBias, "model.layers.{layer}.mlp.up_proj.bias"},
    {TensorRole::kDownBias, "model.layers.{layer}.mlp.down_proj.bias"},
};

Result<Activation> read_activation(const JsonReader& config, const ConfigDefaults& defaults) {
  const std::string_view key = defaults.activation_key;
  QUIRE_ASSIGN_OR_RETURN(const auto name, config.find_string(key));
  if (!name) return defaults.activation;
  if (*name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (defaults.gated_mlp && (*name == "silu" || *name == "swish")) return Activation::kSilu;
  if (!defaults.gated_mlp && (*name == "gelu_new" || *name == "gelu_fast")) {
    return Activation::kGeluTanh;
  }
  if (!defaults.gated_mlp && *name == "gelu") return Activation::kGelu;
  if (!defaults.gated_mlp && *name == "relu") return Activation::kRelu;
  if (!defaults.gated_mlp && *name == "relu2") return Activation::kRelu2;
  return unsupported(config.where(), key, *name);
}

Status read_soft_cap(const JsonReader& config, std::string_view key, double if_absent,
                     bool supported, double& soft_cap) {
  if (!supported) return refuse_keys(config, {key});
  soft_cap = if_absent;
  if (!config.object().contains(key)) return {};
  QUIRE_ASSIGN_OR_RETURN(const auto cap, config.find_double(key));
  soft_cap = cap.value_or(0.0);
  return {};
}

Status refuse_common(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"use_bidirectional_attention"}));
  QUIRE_ASSIGN_OR_RETURN(const auto slices, config.find_int("pretraining_tp"));
  if (slices.value_or(1) != 1) {
    return unsupported(config.where(), "pretraining_tp", fmt::format("{}", *slices));
  }
  return {};
}

}  // namespace

constexpr std::span<const TensorName> kLlamaTensorNames = kLlamaNames;

Status unsupported(std::string_view where, std::string_view key, std::string_view value) {
  return Status::unimplemented(
      fmt::format("{}: {} = {} changes results and is not supported", where, key, printable(value)),
      "use a checkpoint without it");
}

Status refuse_keys(const JsonReader& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const json::value* value = config.find(key);
    if (value == nullptr || (value->is_bool() && !value->get_bool())) continue;
    return unsupported(config.where(), key, json::serialize(*value));
  }
  return {};
}

Result<DecoderDraft> read_common_config(const JsonReader& config, const ConfigDefaults& defaults) {
  QUIRE_RETURN_IF_ERROR(refuse_common(config));
  DecoderDraft draft;
  DecoderSpec& spec = draft.spec;
  AttentionSpec& attention = draft.attention;
  QUIRE_RETURN_IF_ERROR(read_soft_cap(config, "attn_logit_softcapping", defaults.attention_soft_cap,
                                      defaults.soft_caps, attention.soft_cap));
  QUIRE_RETURN_IF_ERROR(read_soft_cap(config, "final_logit_softcapping", defaults.logit_soft_cap,
                                      defaults.soft_caps, spec.logit_soft_cap));
  QUIRE_ASSIGN_OR_RETURN(draft.mlp.activation, read_activation(config, defaults));
  QUIRE_ASSIGN_OR_RETURN(draft.num_layers, config.get_int("num_hidden_layers"));
  QUIRE_ASSIGN_OR_RETURN(spec.hidden_size, config.get_int("hidden_size"));
  QUIRE_ASSIGN_OR_RETURN(draft.mlp.intermediate_size, config.get_int("intermediate_size"));
  QUIRE_ASSIGN_OR_RETURN(attention.num_heads, config.get_int("num_attention_heads"));
  QUIRE_ASSIGN_OR_RETURN(spec.vocab_size, config.get_int("vocab_size"));
  QUIRE_ASSIGN_OR_RETURN(spec.max_position_embeddings, config.get_int("max_position_embeddings"));
  if (defaults.norm_epsilon) {
    spec.norm.epsilon = *defaults.norm_epsilon;
  } else {
    QUIRE_ASSIGN_OR_RETURN(spec.norm.epsilon, config.get_double(defaults.norm_epsilon_key));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, config.find_int("num_key_value_heads"));
  attention.num_kv_heads = kv_heads.value_or(attention.num_heads);
  QUIRE_ASSIGN_OR_RETURN(const auto head_dim, config.find_int("head_dim"));
  if (head_dim) {
    attention.head_dim = *head_dim;
  } else if (defaults.head_dim) {
    attention.head_dim = *defaults.head_dim;
  } else if (attention.num_heads > 0) {
    attention.head_dim = spec.hidden_size / attention.num_heads;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto tied, config.find_bool("tie_word_embeddings"));
  spec.tie_word_embeddings = tied.value_or(defaults.tie_word_embeddings);
  spec.rope_style = RopeStyle::kHalves;
  QUIRE_RETURN_IF_ERROR(draft.validate_sizes(config.where()));
  QUIRE_ASSIGN_OR_RETURN(draft.rotary_dim, read_rotary_dim(config, attention.head_dim,
                                                           defaults.partial_rotary_factor));
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  return draft;
}

Result<json::object> with_usual_keys(
    const JsonReader& config,
    std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
  json::object usual = config.object();
  for (const std::string_view key : {"num_key_value_heads", "intermediate_size"}) usual.erase(key);
  for (const auto& [own, key] : names) {
    if (const json::value* value = config.find(own)) usual[key] = *value;
  }
  const JsonReader reader(usual, config.where());
  QUIRE_ASSIGN_OR_RETURN(const auto inner, reader.find_int("intermediate_size"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t hidden_size, reader.get_int("hidden_size"));
  QUIRE_RETURN_IF_ERROR(check_sizes(config.where(), {{"hidden_size", hidden_size}}));
  usual["intermediate_size"] = inner.value_or(4 * hidden_size);
  return usual;
}

Result<bool> read_flag(const JsonReader& config, std::string_view key, bool if_absent) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_bool(key));
  return value.value_or(if_absent);
}

Status read_attention_bias(const JsonReader& config, std::string_view key, bool if_absent,
                           AttentionSpec& attention) {
  QUIRE_ASSIGN_OR_RETURN(const bool bias, read_flag(config, key, if_absent));
  attention.query_key_value_bias = bias;
  attention.output_bias = bias;
  return {};
}

Result<std::optional<std::vector<double>>> read_layer_numbers(const JsonReader& config,
                                                              std::string_view key,
                                                              std::int64_t num_layers) {
  const json::value* const value = config.find(key);
  if (value == nullptr) return std::optional<std::vector<double>>();
  std::vector<double> numbers;
  if (value->is_number()) {
    numbers.assign(static_cast<std::size_t>(num_layers), value->to_number<double>());
    return std::optional(std::move(numbers));
  }
  if (!value->is_array() || std::cmp_not_equal(value->get_array().size(), num_layers)) {
    return config.type_error(key, fmt::format("a number for each of {} layers", num_layers));
  }
  for (const json::value& number : value->get_array()) {
    if (!number.is_number()) return config.type_error(key, "numbers");
    numbers.push_back(number.to_number<double>());
  }
  return std::optional(std::move(numbers));
}

Status read_qkv_limit(const JsonReader& config, AttentionSpec& attention) {
  QUIRE_ASSIGN_OR_RETURN(const auto limit, config.find_double("clip_qkv"));
  attention.qkv_limit = limit.value_or(0);
  return {};
}

Result<std::optional<std::vector<bool>>> read_layer_types(const JsonReader& config,
                                                          std::int64_t num_layers) {
  const json::value* value = config.find("layer_types");
  if (value == nullptr) return std::optional<std::vector<bool>>();
  if (!value->is_array()) return config.type_error("layer_types", "a list of names");
  const json::array& names = value->get_array();
  if (static_cast<std::int64_t>(names.size()) != num_layers) {
    return Status::bad_model(fmt::format("{}: layer_types has {} entries for {} layers",
                                         config.where(), names.size(), num_layers));
  }
  std::vector<bool> sliding;
  sliding.reserve(names.size());
  for (const json::value& name : names) {
    if (!name.is_string()) return config.type_error("layer_types", "a list of names");
    const std::string_view type = name.get_string();
    if (type != "full_attention" && type != "sliding_attention") {
      return unsupported(config.where(), "layer_types", type);
    }
    sliding.push_back(type == "sliding_attention");
  }
  return std::optional(std::move(sliding));
}

std::vector<bool> sliding_by_pattern(std::int64_t num_layers, std::int64_t pattern) {
  std::vector<bool> sliding;
  sliding.reserve(static_cast<std::size_t>(num_layers));
  for (std::int64_t i = 0; i < num_layers; ++i) sliding.push_back((i + 1) % pattern != 0);
  return sliding;
}

Result<std::vector<bool>> read_sliding_layers(const JsonReader& config, std::int64_t num_layers,
                                              std::int64_t default_pattern) {
  QUIRE_ASSIGN_OR_RETURN(auto types, read_layer_types(config, num_layers));
  if (types) return *std::move(types);
  QUIRE_ASSIGN_OR_RETURN(const auto pattern, config.find_int("sliding_window_pattern"));
  if (pattern.value_or(default_pattern) < 1) {
    return Status::bad_model(fmt::format("{}: sliding_window_pattern is {}; expected 1 or more",
                                         config.where(), *pattern));
  }
  return sliding_by_pattern(num_layers, pattern.value_or(default_pattern));
}

Status set_sliding_layers(std::string_view where, const std::vector<bool>& sliding,
                          const SlidingLayers& kinds, std::vector<LayerSpec>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (sliding[i] && kinds.window == 0) {
      return Status::bad_model(
          fmt::format("{}: layers with a sliding window, but no sliding_window", where));
    }
    AttentionSpec& attention = layers[i].attention();
    attention.window = sliding[i] ? kinds.window : 0;
    attention.rope = sliding[i] ? kinds.sliding_rope : kinds.full_rope;
  }
  return {};
}

Result<std::int32_t> read_sliding_window(const JsonReader& config, std::int32_t if_absent) {
  if (!config.object().contains("sliding_window")) return if_absent;
  QUIRE_ASSIGN_OR_RETURN(const auto window, config.find_int("sliding_window"));
  if (!window) return 0;
  if (*window < 1 || *window > std::numeric_limits<std::int32_t>::max()) {
    return Status::bad_model(
        fmt::format("{}: sliding_window is {}; expected 1 or more", config.where(), *window));
  }
  return static_cast<std::int32_t>(*window);
}

}  // namespace quire
