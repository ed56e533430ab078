#include <fmt/format.h>

#include "apps/make_model/file_headers.h"
#include "base/checked.h"

namespace quire {
namespace {

std::string_view torch_dtype(std::string_view encoding) {
  if (encoding == "f32") return "float32";
  return encoding == "f16" ? "float16" : "bfloat16";
}

// What is not as in the Llama family.
void set_family(const ModelShape& shape, json::object& config) {
  const ShapeExperts& experts = shape.experts;
  const ShapeLatent& latent = shape.latent;
  const auto set = [&](json::object more) {
    for (auto& [key, value] : more) config[key] = std::move(value);
  };
  switch (shape.family()) {
    case ShapeFamily::kQwen3Moe:
      set({{"architectures", json::array{"Qwen3MoeForCausalLM"}},
           {"model_type", "qwen3_moe"},
           {"num_experts", experts.num_experts},
           {"num_experts_per_tok", experts.experts_per_token},
           {"moe_intermediate_size", experts.intermediate_size},
           {"norm_topk_prob", true},
           {"decoder_sparse_step", 1},
           {"mlp_only_layers", json::array()}});
      break;
    case ShapeFamily::kDeepseekV2:
      config.erase("head_dim");
      set({{"architectures", json::array{"DeepseekV2ForCausalLM"}},
           {"model_type", "deepseek_v2"},
           {"q_lora_rank", nullptr},
           {"kv_lora_rank", latent.latent_dims},
           {"qk_rope_head_dim", latent.rope_dims},
           {"qk_nope_head_dim", latent.key_dims},
           {"v_head_dim", latent.value_dims},
           {"first_k_dense_replace", shape.num_layers}});
      break;
    case ShapeFamily::kLlama:
      break;
  }
}

json::object config(const ModelShape& shape, const SyntheticVocab& vocab,
                    std::string_view encoding) {
  json::object config = {{"architectures", json::array{"LlamaForCausalLM"}},
                         {"model_type", "llama"},
                         {"vocab_size", shape.vocab_size},
                         {"hidden_size", shape.hidden_size},
                         {"intermediate_size", shape.intermediate_size},
                         {"num_hidden_layers", shape.num_layers},
                         {"num_attention_heads", shape.num_heads},
                         {"num_key_value_heads", shape.num_kv_heads},
                         {"head_dim", shape.head_dim()},
                         {"hidden_act", "silu"},
                         {"max_position_embeddings", shape.max_position_embeddings},
                         {"rms_norm_eps", shape.rms_norm_eps},
                         {"rope_theta", shape.rope_theta},
                         {"rope_scaling", nullptr},
                         {"attention_bias", false},
                         {"attention_dropout", 0.0},
                         {"mlp_bias", false},
                         {"initializer_range", 0.02},
                         {"tie_word_embeddings", shape.tie_word_embeddings},
                         {"use_cache", true},
                         {"torch_dtype", torch_dtype(encoding)},
                         {"bos_token_id", vocab.bos_id},
                         {"eos_token_id", vocab.eos_id}};
  if (const ShapeRopeScaling& scaling = shape.rope_scaling; scaling.factor != 0) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling.factor},
        {"low_freq_factor", scaling.low_freq_factor},
        {"high_freq_factor", scaling.high_freq_factor},
        {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
  }
  set_family(shape, config);
  return config;
}

json::object byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

json::object tokenizer(const SyntheticVocab& vocab) {
  json::object ids;
  json::array added;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    ids[vocab.tokens[id]] = id;
    if (static_cast<std::int64_t>(id) < vocab.first_control_id()) continue;
    added.push_back({{"id", id},
                     {"content", vocab.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  json::array merges;
  for (const auto& [left, right] : vocab.merges) merges.emplace_back(left + " " + right);
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", byte_level()},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(ids)},
            {"merges", std::move(merges)}}}};
}

json::object tokenizer_config(const ModelShape& shape, const SyntheticVocab& vocab) {
  const auto token = [&](std::int64_t id) { return vocab.tokens[static_cast<std::size_t>(id)]; };
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", token(vocab.bos_id)},
          {"eos_token", token(vocab.eos_id)},
          {"model_max_length", shape.max_position_embeddings},
          {"clean_up_tokenization_spaces", false},
          {"chat_template", synthetic_chat_template()}};
}

std::string_view safetensors_dtype(Encoding encoding) { return encoding_traits(encoding).name; }

}  // namespace

std::vector<NamedFile> hugging_face_files(const ModelShape& shape, const SyntheticVocab& vocab,
                                          std::string_view encoding) {
  const json::object generation = {
      {"_from_model_config", false},
      {"bos_token_id", vocab.bos_id},
      {"eos_token_id", json::array{vocab.eos_id, vocab.end_of_turn_id}}};
  return {{"config.json", json::serialize(config(shape, vocab, encoding)) + "\n"},
          {"generation_config.json", json::serialize(generation) + "\n"},
          {"tokenizer.json", json::serialize(tokenizer(vocab)) + "\n"},
          {"tokenizer_config.json", json::serialize(tokenizer_config(shape, vocab)) + "\n"}};
}

std::string safetensors_header(std::span<const MadeTensor> tensors) {
  json::object entries = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const MadeTensor& tensor : tensors) {
    json::array shape;
    if (!tensor.is_vector) shape.push_back(tensor.rows);
    shape.push_back(tensor.cols);
    const std::uint64_t end = offset + tensor.bytes();
    entries[tensor.name] = {{"dtype", safetensors_dtype(tensor.encoding)},
                            {"shape", std::move(shape)},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json::serialize(entries);
  text.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(text.size()), 8)), ' ');
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

}  // namespace quire
