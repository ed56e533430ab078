#include "models/gguf_keys.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {

namespace {

constexpr TensorName kGgufNames[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorRole::kOutput, "output.weight"},
    {TensorRole::kInputNorm, "blk.{layer}.attn_norm.weight"},
    {TensorRole::kQuery, "blk.{layer}.attn_q.weight"},
    {TensorRole::kKey, "blk.{layer}.attn_k.weight"},
    {TensorRole::kValue, "blk.{layer}.attn_v.weight"},
    {TensorRole::kQueryBias, "blk.{layer}.attn_q.bias"},
    {TensorRole::kKeyBias, "blk.{layer}.attn_k.bias"},
    {TensorRole::kValueBias, "blk.{layer}.attn_v.bias"},
    {TensorRole::kQueryNorm, "blk.{layer}.attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "blk.{layer}.attn_k_norm.weight"},
    {TensorRole::kAttentionOutput, "blk.{layer}.attn_output.weight"},
    {TensorRole::kAttentionBias, "blk.{layer}.attn_output.bias"},
    {TensorRole::kAttentionOutputNorm, "blk.{layer}.post_attention_norm.weight"},
    {TensorRole::kMlpNorm, "blk.{layer}.ffn_norm.weight"},
    {TensorRole::kGate, "blk.{layer}.ffn_gate.weight"},
    {TensorRole::kUp, "blk.{layer}.ffn_up.weight"},
    {TensorRole::kDown, "blk.{layer}.ffn_down.weight"},
    {TensorRole::kGateBias, "blk.{layer}.ffn_gate.bias"},
    {TensorRole::kUpBias, "blk.{layer}.ffn_up.bias"},
    {TensorRole::kDownBias, "blk.{layer}.ffn_down.bias"},
    {TensorRole::kMlpOutputNorm, "blk.{layer}.post_ffw_norm.weight"},
    {TensorRole::kRouter, "blk.{layer}.ffn_gate_inp.weight"},
    {TensorRole::kExpertGates, "blk.{layer}.ffn_gate_exps.weight"},
    {TensorRole::kExpertUps, "blk.{layer}.ffn_up_exps.weight"},
    {TensorRole::kExpertDowns, "blk.{layer}.ffn_down_exps.weight"},
};

// Numbers that change results where they are neither absent nor 0 (no scale of its own).
Status refuse_numbers(const GgufFile& file, const std::string& prefix) {
  for (const std::string_view name :
       {"logit_scale", "residual_scale", "embedding_scale", "attention.scale",
        "attention.max_alibi_bias", "attention.clamp_kqv"}) {
    const std::string key = fmt::format("{}.{}", prefix, name);
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.find_double(key));
    if (value.value_or(0.0) != 0.0) {
      return unsupported(file.name(), key, fmt::format("{}", *value));
    }
  }
  const std::string causal_key = prefix + ".attention.causal";
  QUIRE_ASSIGN_OR_RETURN(const auto causal, file.find_bool(causal_key));
  if (!causal.value_or(true)) return unsupported(file.name(), causal_key, "false");
  return {};
}

// A size that must be the head's, where it is given.
Status check_head_size(const GgufFile& file, const std::string& key, std::int64_t head_dim) {
  QUIRE_ASSIGN_OR_RETURN(const auto size, file.find_int(key));
  if (size.value_or(head_dim) == head_dim) return {};
  return unsupported(file.name(), key, fmt::format("{} with heads of {}", *size, head_dim));
}

Status read_tensor_facts(const GgufFile& file, DecoderDraft& draft) {
  DecoderSpec& spec = draft.spec;
  const TensorInfo* embedding = file.find(spec.names.name(TensorRole::kEmbedding));
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return Status::bad_model(
        fmt::format("{}: no two-dimensional tensor token_embd.weight", file.name()),
        "convert the model again");
  }
  spec.vocab_size = embedding->shape[0];
  const auto present = [&](TensorRole role) { return file.find(spec.names.name(role)) != nullptr; };
  spec.tie_word_embeddings = !present(TensorRole::kOutput);
  draft.attention.query_key_value_bias = present(TensorRole::kQueryBias);
  draft.attention.output_bias = present(TensorRole::kAttentionBias);
  draft.mlp.bias = present(TensorRole::kGateBias);
  return {};
}

}  // namespace

constexpr std::span<const TensorName> kGgufTensorNames = kGgufNames;

Result<DecoderDraft> read_common_gguf(const GgufFile& file, const std::string& prefix) {
  QUIRE_RETURN_IF_ERROR(refuse_numbers(file, prefix));
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", prefix, name); };
  DecoderDraft draft;
  DecoderSpec& spec = draft.spec;
  AttentionSpec& attention = draft.attention;
  spec.names = {.own = kGgufTensorNames};
  QUIRE_ASSIGN_OR_RETURN(const auto score_cap, file.find_double(key("attn_logit_softcapping")));
  QUIRE_ASSIGN_OR_RETURN(const auto logit_cap, file.find_double(key("final_logit_softcapping")));
  attention.soft_cap = score_cap.value_or(0.0);
  spec.logit_soft_cap = logit_cap.value_or(0.0);
  QUIRE_ASSIGN_OR_RETURN(draft.num_layers, file.get_int(key("block_count")));
  QUIRE_ASSIGN_OR_RETURN(spec.hidden_size, file.get_int(key("embedding_length")));
  QUIRE_ASSIGN_OR_RETURN(draft.mlp.intermediate_size, file.get_int(key("feed_forward_length")));
  QUIRE_ASSIGN_OR_RETURN(attention.num_heads, file.get_int(key("attention.head_count")));
  QUIRE_ASSIGN_OR_RETURN(spec.max_position_embeddings, file.get_int(key("context_length")));
  QUIRE_ASSIGN_OR_RETURN(spec.norm.epsilon,
                         file.get_double(key("attention.layer_norm_rms_epsilon")));
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, file.find_int(key("attention.head_count_kv")));
  attention.num_kv_heads = kv_heads.value_or(attention.num_heads);
  QUIRE_ASSIGN_OR_RETURN(const auto key_length, file.find_int(key("attention.key_length")));
  attention.head_dim =
      key_length.value_or(attention.num_heads > 0 ? spec.hidden_size / attention.num_heads : 0);
  QUIRE_RETURN_IF_ERROR(check_head_size(file, key("attention.value_length"), attention.head_dim));
  QUIRE_RETURN_IF_ERROR(check_head_size(file, key("rope.dimension_count"), attention.head_dim));
  QUIRE_RETURN_IF_ERROR(read_tensor_facts(file, draft));
  QUIRE_RETURN_IF_ERROR(draft.validate_sizes(file.name()));
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  QUIRE_ASSIGN_OR_RETURN(RopeSpec rope, read_rope_gguf(file, prefix, attention.head_dim));
  spec.ropes.push_back(std::move(rope));
  return draft;
}

Status refuse_gguf_experts(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + ".expert_count";
  QUIRE_ASSIGN_OR_RETURN(const auto count, file.find_int(key));
  if (count.value_or(0) == 0) return {};
  return unsupported(file.name(), key, fmt::format("{}", *count));
}

Result<MoeSpec> read_gguf_moe(const GgufFile& file, const std::string& prefix,
                              const DecoderDraft& draft, bool weights_sum_to_one) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", prefix, name); };
  MoeSpec moe = {.activation = draft.mlp.activation, .tensors = ExpertTensors::kStacked};
  QUIRE_ASSIGN_OR_RETURN(moe.num_experts, file.get_int(key("expert_count")));
  QUIRE_ASSIGN_OR_RETURN(moe.experts_per_token, file.get_int(key("expert_used_count")));
  QUIRE_ASSIGN_OR_RETURN(const auto size, file.find_int(key("expert_feed_forward_length")));
  moe.intermediate_size = size.value_or(draft.mlp.intermediate_size);
  QUIRE_ASSIGN_OR_RETURN(const auto normed, file.find_bool(key("expert_weights_norm")));
  moe.routing.weights_sum_to_one = normed.value_or(weights_sum_to_one);
  // No shared expert, the softmax, nothing else.
  for (const auto& [name, neutral] :
       {std::pair{"expert_shared_count", 0.0}, std::pair{"expert_gating_func", 1.0},
        std::pair{"expert_weights_scale", 1.0}, std::pair{"expert_group_count", 1.0}}) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.find_double(key(name)));
    if (value.value_or(0.0) != 0.0 && *value != neutral) {
      return unsupported(file.name(), key(name), fmt::format("{}", *value));
    }
  }
  return moe;
}

Result<std::int32_t> read_gguf_window(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + ".attention.sliding_window";
  QUIRE_ASSIGN_OR_RETURN(const auto window, file.find_int(key));
  if (window.value_or(0) < 0 || window.value_or(0) > std::numeric_limits<std::int32_t>::max()) {
    return Status::bad_model(
        fmt::format("{}: {} is {}; expected 0 or more", file.name(), key, *window));
  }
  return static_cast<std::int32_t>(window.value_or(0));
}

Status refuse_gguf_window(const GgufFile& file, const std::string& prefix) {
  QUIRE_ASSIGN_OR_RETURN(const std::int32_t window, read_gguf_window(file, prefix));
  if (window == 0) return {};
  return unsupported(file.name(), prefix + ".attention.sliding_window", fmt::format("{}", window));
}

}  // namespace quire
