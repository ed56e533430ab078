#include "models/gguf_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/gguf_rope.h"

namespace quire {
namespace {

// Under every name that a family has for it.
constexpr GgufKey kCommonKeys[] = {
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"attention.layer_norm_epsilon", "norm_epsilon"},
    {"attention.layer_norm_epsilon", "norm_eps"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
};

constexpr GgufKey kMixtureKeys[] = {
    {"expert_count", "num_experts"},
    {"expert_count", "n_routed_experts"},
    {"expert_count", "moe_num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_used_count", "moe_k"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_count", "moe_num_shared_experts"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"expert_gating_func", ""},  // take_gguf_tensors() looks at it
};

// Keys that change results, with the number that changes nothing; 0 does not either.
constexpr std::pair<std::string_view, double> kChanging[] = {
    {"logit_scale", 0},
    {"residual_scale", 0},
    {"embedding_scale", 0},
    {"attention.scale", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.sliding_window", 0},
    {"attention.temperature_scale", 0},
    {"attention.temperature_length", 0},
    {"attention.shared_kv_layers", 0},
    {"embedding_length_per_layer_input", 0},
    {"expert_count", 0},
    {"expert_shared_count", 0},
    {"expert_weights_scale", 1},
    {"expert_group_count", 1},
    {"expert_gating_func", 1},
    {"interleave_moe_layer_step", 1},
    {"leading_dense_block_count", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
};

// Of which 0 says nothing.
constexpr std::string_view kUnlessZero[] = {
    "expert_weights_scale", "expert_group_count", "expert_group_used_count", "attention.scale",
    "logit_scale",          "residual_scale",     "embedding_scale"};

constexpr std::string_view kNarrowHeads = "attention.key_length_swa";
constexpr std::string_view kHeadsOfLayers = "attention.head_count_kv";

bool is_key_of(std::span<const GgufKey> keys, std::string_view name) {
  return std::ranges::find(keys, name, &GgufKey::gguf) != keys.end();
}

class Translation {
 public:
  Translation(const GgufFile& file, const GgufForm& form) : file_(file), form_(form) {}

  Result<json::object> config() {
    QUIRE_RETURN_IF_ERROR(refuse_changing_keys());
    if (!form_.settings.empty()) {
      QUIRE_ASSIGN_OR_RETURN(const json::value settings,
                             parse_json(form_.settings, form_.architecture));
      config_ = settings.as_object();
    }
    QUIRE_RETURN_IF_ERROR(set_sizes());
    QUIRE_RETURN_IF_ERROR(set_all(kCommonKeys));
    if (form_.mixture) QUIRE_RETURN_IF_ERROR(set_all(kMixtureKeys));
    QUIRE_RETURN_IF_ERROR(set_all(form_.keys));
    if (form_.convolutions) QUIRE_RETURN_IF_ERROR(set_convolutions());
    if (form_.latent) {
      QUIRE_RETURN_IF_ERROR(set_latent_sizes());
    } else {
      QUIRE_RETURN_IF_ERROR(set_head_sizes());
    }
    for (const GgufSign& sign : form_.signs) {
      config_[sign.config] = file_.find(sign.tensor) != nullptr;
    }
    QUIRE_RETURN_IF_ERROR(set_gguf_rope(file_, form_, config_));
    return std::move(config_);
  }

 private:
  std::string key(std::string_view name) const {
    return fmt::format("{}.{}", form_.architecture, name);
  }

  Status refuse_changing_keys() const {
    for (const auto& [name, neutral] : kChanging) {
      const bool is_read = is_key_of(form_.keys, name) ||
                           (form_.mixture && is_key_of(kMixtureKeys, name)) ||
                           (form_.latent && name == "rope.scaling.yarn_log_multiplier");
      if (is_read) continue;
      QUIRE_ASSIGN_OR_RETURN(const auto value, file_.find_double(key(name)));
      if (value.value_or(0.0) == 0.0 || *value == neutral) continue;
      return unsupported(file_.name(), key(name), fmt::format("{}", *value));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto causal, file_.find_bool(key("attention.causal")));
    if (!causal.value_or(true)) return unsupported(file_.name(), key("attention.causal"), "false");
    return {};
  }

  // Layers that draft tokens are counted, and not read.
  Status set_sizes() {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t blocks, file_.get_int(key("block_count")));
    QUIRE_ASSIGN_OR_RETURN(const auto drafting, file_.find_int(key("nextn_predict_layers")));
    config_["num_hidden_layers"] = blocks - std::clamp<std::int64_t>(drafting.value_or(0), 0, 64);
    for (const std::string_view name :
         {"embedding_length", "attention.head_count", "context_length"}) {
      QUIRE_RETURN_IF_ERROR(file_.get_int(key(name)).status());
    }
    const TensorInfo* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      return Status::bad_model(
          fmt::format("{}: no two-dimensional tensor token_embd.weight", file_.name()),
          "convert the model again");
    }
    config_["vocab_size"] = embedding->shape[0];
    config_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
    return {};
  }

  Status set_all(std::span<const GgufKey> keys) {
    for (const GgufKey& entry : keys) QUIRE_RETURN_IF_ERROR(set(entry));
    return {};
  }

  // A window of 0 is none, and so is one that is not there.
  Status set(const GgufKey& entry) {
    if (entry.config.empty()) return {};
    const GgufEntry* found = file_.metadata().find(key(entry.gguf));
    if (found == nullptr) found = file_.metadata().find(entry.gguf);
    const bool is_window = entry.config == "sliding_window";
    if (form_.convolutions && entry.gguf == kHeadsOfLayers) return {};
    if (found == nullptr) {
      if (is_window) config_[entry.config] = nullptr;
      return {};
    }
    QUIRE_ASSIGN_OR_RETURN(json::value value, value_of(*found));
    const bool is_zero = value == json::value(0) || value == json::value(0.0);
    if (is_zero && std::ranges::find(kUnlessZero, entry.gguf) != std::end(kUnlessZero)) return {};
    if (is_window && is_zero) value = nullptr;
    if (entry.gguf == "attention.sliding_window_pattern" && value.is_array()) {
      config_["layer_types"] = std::move(value);
      return {};
    }
    const std::size_t dot = entry.config.find('.');
    if (dot == entry.config.npos) {
      config_[entry.config] = std::move(value);
      return {};
    }
    json::value& object = config_[entry.config.substr(0, dot)];
    if (!object.is_object()) object = json::object();
    object.get_object()[entry.config.substr(dot + 1)] = std::move(value);
    return {};
  }

  // Flags in a list say which layers have a window; numbers in one are those of layers.
  Result<json::value> value_of(const GgufEntry& entry) const {
    const std::string_view name = entry.key;
    if (entry.is_array && entry.type == GgufType::kBool) {
      json::array types;
      for (const std::byte flag : entry.data) {
        types.emplace_back(flag == std::byte{0} ? "full_attention" : "sliding_attention");
      }
      return json::value(std::move(types));
    }
    if (entry.is_array && (entry.type == GgufType::kF32 || entry.type == GgufType::kF64)) {
      QUIRE_ASSIGN_OR_RETURN(const auto numbers, file_.find_floats(name));
      return json::value(json::array(numbers->begin(), numbers->end()));
    }
    if (entry.is_array && entry.type != GgufType::kString) {
      QUIRE_ASSIGN_OR_RETURN(const auto numbers, file_.find_ints(name));
      return json::value(json::array(numbers->begin(), numbers->end()));
    }
    if (entry.type == GgufType::kBool) {
      QUIRE_ASSIGN_OR_RETURN(const auto flag, file_.find_bool(name));
      return json::value(*flag);
    }
    if (!entry.is_array && (entry.type == GgufType::kF32 || entry.type == GgufType::kF64)) {
      QUIRE_ASSIGN_OR_RETURN(const auto number, file_.find_double(name));
      return json::value(*number);
    }
    QUIRE_ASSIGN_OR_RETURN(const auto number, file_.find_int(name));
    return json::value(*number);
  }

  Status set_convolutions() {
    QUIRE_ASSIGN_OR_RETURN(const auto heads, file_.find_ints(key(kHeadsOfLayers)));
    if (!heads || heads->empty()) {
      return Status::bad_model(fmt::format("{}: no list {} of a number for each layer",
                                           file_.name(), key(kHeadsOfLayers)),
                               "convert the model again");
    }
    const std::int32_t most = *std::ranges::max_element(*heads);
    json::array types;
    for (const std::int32_t count : *heads) {
      if (count != 0 && count != most) {
        return unsupported(file_.name(), key(kHeadsOfLayers),
                           fmt::format("{} and {}", count, most));
      }
      types.emplace_back(count == 0 ? "conv" : "full_attention");
    }
    config_["layer_types"] = std::move(types);
    config_["num_key_value_heads"] = most;
    return {};
  }

  Status set_head_sizes() {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t width, file_.get_int(key("embedding_length")));
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t heads, file_.get_int(key("attention.head_count")));
    QUIRE_ASSIGN_OR_RETURN(const auto key_length, file_.find_int(key("attention.key_length")));
    const std::int64_t head_dim = key_length.value_or(heads > 0 ? width / heads : 0);
    QUIRE_ASSIGN_OR_RETURN(const auto value_length, file_.find_int(key("attention.value_length")));
    if (value_length.value_or(head_dim) != head_dim) {
      return unsupported(file_.name(), key("attention.value_length"),
                         fmt::format("{} with heads of {}", *value_length, head_dim));
    }
    if (is_key_of(form_.keys, kNarrowHeads)) return set_two_head_sizes(head_dim);
    config_["head_dim"] = head_dim;
    QUIRE_ASSIGN_OR_RETURN(const auto rotary_dim, file_.find_int(key("rope.dimension_count")));
    if (rotary_dim.value_or(head_dim) == head_dim || head_dim < 1) return {};
    config_["rotary_dim"] = *rotary_dim;
    // Times the head's size it is rounded down, and must not be a hair less than that many.
    const auto width_of_head = static_cast<double>(head_dim);
    double share = static_cast<double>(*rotary_dim) / width_of_head;
    if (width_of_head * share < static_cast<double>(*rotary_dim))
      share = std::nextafter(share, 2.0);
    config_["partial_rotary_factor"] = share;
    return {};
  }

  // Of layers that see all keys, and of those with a window.
  Status set_two_head_sizes(std::int64_t wide) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t narrow, file_.get_int(key(kNarrowHeads)));
    const std::pair<std::string_view, std::int64_t> same[] = {
        {"attention.value_length_swa", narrow},
        {"rope.dimension_count_swa", narrow},
        {"rope.dimension_count", wide}};
    for (const auto& [name, size] : same) {
      QUIRE_ASSIGN_OR_RETURN(const auto said, file_.find_int(key(name)));
      if (said.value_or(size) == size) continue;
      return unsupported(file_.name(), key(name), fmt::format("{} with heads of {}", *said, size));
    }
    config_["global_head_dim"] = wide;
    return {};
  }

  // The keys without `_mla` are those of the heads that llama.cpp's cache has, where both are
  // there.
  Status set_latent_sizes() {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t rotary, file_.get_int(key("rope.dimension_count")));
    QUIRE_ASSIGN_OR_RETURN(auto key_length, file_.find_int(key("attention.key_length_mla")));
    if (!key_length) {
      QUIRE_ASSIGN_OR_RETURN(key_length, file_.get_int(key("attention.key_length")));
    }
    QUIRE_ASSIGN_OR_RETURN(auto value_length, file_.find_int(key("attention.value_length_mla")));
    if (!value_length) {
      QUIRE_ASSIGN_OR_RETURN(value_length, file_.get_int(key("attention.value_length")));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto query_rank, file_.find_int(key("attention.q_lora_rank")));
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t rank, file_.get_int(key("attention.kv_lora_rank")));
    config_["qk_rope_head_dim"] = rotary;
    config_["qk_nope_head_dim"] = *key_length - rotary;
    config_["v_head_dim"] = *value_length;
    config_["kv_lora_rank"] = rank;
    config_["q_lora_rank"] = query_rank ? json::value(*query_rank) : json::value();
    config_["num_key_value_heads"] = config_["num_attention_heads"];
    return {};
  }

  const GgufFile& file_;
  const GgufForm& form_;
  json::object config_;
};

bool names_key(std::string_view message, std::string_view key) {
  const auto is_part = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  const std::size_t at = message.find(key);
  if (key.empty() || at == std::string_view::npos) return false;
  const std::size_t end = at + key.size();
  return (at == 0 || !is_part(message[at - 1])) &&
         (end == message.size() || !is_part(message[end]));
}

// The error, with what a key that it names is called in the file.
Status in_gguf(const Status& error, const GgufForm& form) {
  for (const std::span<const GgufKey> keys :
       {std::span<const GgufKey>(kCommonKeys), std::span<const GgufKey>(kMixtureKeys), form.keys}) {
    for (const GgufKey& key : keys) {
      if (!names_key(error.message(), key.config)) continue;
      return {error.code(),
              fmt::format("{}; here it is {}.{}", error.message(), form.architecture, key.gguf),
              error.remedy()};
    }
  }
  return error;
}

}  // namespace

Result<bool> has_gguf_form(const GgufFile& file, const GgufForm& form) {
  QUIRE_ASSIGN_OR_RETURN(const std::string name, file.get_string("general.architecture"));
  if (name != form.architecture) return false;
  if (!form.when) return true;
  if (!form.when->tensor.empty()) {
    return std::ranges::any_of(file.tensors(), [&](const TensorInfo& tensor) {
      return tensor.name.ends_with(form.when->tensor);
    });
  }
  QUIRE_ASSIGN_OR_RETURN(const auto value,
                         file.find_double(fmt::format("{}.{}", name, form.when->key)));
  return form.when->value ? value == form.when->value : value.value_or(0.0) != 0.0;
}

Result<json::object> gguf_config(const GgufFile& file, const GgufForm& form) {
  return Translation(file, form).config();
}

Result<DecoderSpec> read_gguf_form(const GgufFile& file, const GgufForm& form,
                                   Result<DecoderSpec> (*from_config)(const JsonReader&)) {
  QUIRE_ASSIGN_OR_RETURN(const json::object config, gguf_config(file, form));
  const JsonReader reader(config, file.name() + ", as config.json");
  auto spec = from_config(reader);
  if (!spec.ok()) return in_gguf(spec.status(), form);
  QUIRE_RETURN_IF_ERROR(take_gguf_tensors(file, form, *spec));
  return spec;
}

}  // namespace quire
