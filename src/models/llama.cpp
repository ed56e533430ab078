#include "models/llama.h"

#include <fmt/format.h>

namespace quire {
namespace {

constexpr TensorNames kHuggingFaceNames = {{
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
    "model.layers.{}.input_layernorm.weight",
    "model.layers.{}.self_attn.q_proj.weight",
    "model.layers.{}.self_attn.k_proj.weight",
    "model.layers.{}.self_attn.v_proj.weight",
    "model.layers.{}.self_attn.o_proj.weight",
    "model.layers.{}.post_attention_layernorm.weight",
    "model.layers.{}.mlp.gate_proj.weight",
    "model.layers.{}.mlp.up_proj.weight",
    "model.layers.{}.mlp.down_proj.weight",
}};

constexpr TensorNames kGgufNames = {{
    "token_embd.weight",
    "output_norm.weight",
    "output.weight",
    "blk.{}.attn_norm.weight",
    "blk.{}.attn_q.weight",
    "blk.{}.attn_k.weight",
    "blk.{}.attn_v.weight",
    "blk.{}.attn_output.weight",
    "blk.{}.ffn_norm.weight",
    "blk.{}.ffn_gate.weight",
    "blk.{}.ffn_up.weight",
    "blk.{}.ffn_down.weight",
}};

Status unsupported(std::string_view where, std::string_view key, std::string_view value) {
  return Status::unimplemented(
      fmt::format("{}: {} = {} changes results and is not supported", where, key, value),
      "use a checkpoint without it");
}

// Values that would change the model's numbers and that this family does not compute.
Status refuse_unsupported(const JsonReader& config) {
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_bool(key));
    if (value.value_or(false)) return unsupported(config.where(), key, "true");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto activation, config.find_string("hidden_act"));
  if (activation && *activation != "silu" && *activation != "swish") {
    return unsupported(config.where(), "hidden_act", *activation);
  }
  for (const std::string_view key : {"quantization_config", "sliding_window"}) {
    if (const json::value* value = config.find(key)) {
      return unsupported(config.where(), key, json::serialize(*value));
    }
  }
  return {};
}

// `rope_scaling`, or `rope_parameters` of newer configurations, must describe plain rotary
// positions.
Status check_rope_kind(const JsonReader& config, std::string_view key) {
  const json::value* value = config.find(key);
  if (value == nullptr) return {};
  if (!value->is_object()) return config.type_error(key, "an object");
  const JsonReader rope(value->get_object(), fmt::format("{}: {}", config.where(), key));
  for (const std::string_view type_key : {"rope_type", "type"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto type, rope.find_string(type_key));
    if (type && *type != "default") return unsupported(rope.where(), type_key, *type);
  }
  return {};
}

Result<double> rope_theta(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(check_rope_kind(config, "rope_scaling"));
  QUIRE_RETURN_IF_ERROR(check_rope_kind(config, "rope_parameters"));
  if (config.contains("rope_parameters")) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader rope, config.get_object("rope_parameters"));
    QUIRE_ASSIGN_OR_RETURN(const auto theta, rope.find_double("rope_theta"));
    if (theta) return *theta;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto theta, config.find_double("rope_theta"));
  return theta.value_or(10000.0);
}

}  // namespace

Result<DecoderSpec> llama_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_unsupported(config));
  DecoderSpec spec;
  spec.architecture = "LlamaForCausalLM";
  spec.names = &kHuggingFaceNames;
  spec.rope_style = RopeStyle::kHalves;
  QUIRE_ASSIGN_OR_RETURN(spec.num_layers, config.get_int("num_hidden_layers"));
  QUIRE_ASSIGN_OR_RETURN(spec.hidden_size, config.get_int("hidden_size"));
  QUIRE_ASSIGN_OR_RETURN(spec.intermediate_size, config.get_int("intermediate_size"));
  QUIRE_ASSIGN_OR_RETURN(spec.num_heads, config.get_int("num_attention_heads"));
  QUIRE_ASSIGN_OR_RETURN(spec.vocab_size, config.get_int("vocab_size"));
  QUIRE_ASSIGN_OR_RETURN(spec.max_position_embeddings, config.get_int("max_position_embeddings"));
  QUIRE_ASSIGN_OR_RETURN(spec.rms_norm_eps, config.get_double("rms_norm_eps"));
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, config.find_int("num_key_value_heads"));
  spec.num_kv_heads = kv_heads.value_or(spec.num_heads);
  QUIRE_ASSIGN_OR_RETURN(const auto head_dim, config.find_int("head_dim"));
  spec.head_dim = head_dim.value_or(spec.num_heads > 0 ? spec.hidden_size / spec.num_heads : 0);
  QUIRE_ASSIGN_OR_RETURN(spec.rope_theta, rope_theta(config));
  QUIRE_ASSIGN_OR_RETURN(const auto tied, config.find_bool("tie_word_embeddings"));
  spec.tie_word_embeddings = tied.value_or(false);
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  return spec;
}

Result<DecoderSpec> llama_from_gguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const auto scaling, file.find_string("llama.rope.scaling.type"));
  if (scaling && *scaling != "none") {
    return unsupported(file.name(), "llama.rope.scaling.type", *scaling);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto experts, file.find_int("llama.expert_count"));
  if (experts.value_or(0) != 0) {
    return unsupported(file.name(), "llama.expert_count", std::to_string(*experts));
  }
  DecoderSpec spec;
  spec.architecture = "llama";
  spec.names = &kGgufNames;
  // GGUF's converter reorders the rows of q and k so that rotated pairs lie side by side.
  spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(spec.num_layers, file.get_int("llama.block_count"));
  QUIRE_ASSIGN_OR_RETURN(spec.hidden_size, file.get_int("llama.embedding_length"));
  QUIRE_ASSIGN_OR_RETURN(spec.intermediate_size, file.get_int("llama.feed_forward_length"));
  QUIRE_ASSIGN_OR_RETURN(spec.num_heads, file.get_int("llama.attention.head_count"));
  QUIRE_ASSIGN_OR_RETURN(spec.max_position_embeddings, file.get_int("llama.context_length"));
  QUIRE_ASSIGN_OR_RETURN(spec.rms_norm_eps,
                         file.get_double("llama.attention.layer_norm_rms_epsilon"));
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, file.find_int("llama.attention.head_count_kv"));
  spec.num_kv_heads = kv_heads.value_or(spec.num_heads);
  QUIRE_ASSIGN_OR_RETURN(const auto key_length, file.find_int("llama.attention.key_length"));
  spec.head_dim = key_length.value_or(spec.num_heads > 0 ? spec.hidden_size / spec.num_heads : 0);
  QUIRE_ASSIGN_OR_RETURN(const auto rope_dim, file.find_int("llama.rope.dimension_count"));
  if (rope_dim && *rope_dim != spec.head_dim) {
    return unsupported(file.name(), "llama.rope.dimension_count", std::to_string(*rope_dim));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto theta, file.find_double("llama.rope.freq_base"));
  spec.rope_theta = theta.value_or(10000.0);
  const TensorInfo* embedding = file.find(kGgufNames.name(TensorRole::kEmbedding));
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return Status::bad_model(
        fmt::format("{}: no two-dimensional tensor token_embd.weight", file.name()),
        "convert the model again");
  }
  spec.vocab_size = embedding->shape[0];
  spec.tie_word_embeddings = file.find(kGgufNames.name(TensorRole::kOutput)) == nullptr;
  QUIRE_RETURN_IF_ERROR(spec.validate(file.name()));
  return spec;
}

}  // namespace quire
