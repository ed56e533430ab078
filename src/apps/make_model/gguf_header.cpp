#include <array>

#include <fmt/format.h>

#include "apps/make_model/file_headers.h"
#include "base/checked.h"
#include "weights/gguf_metadata.h"

namespace quire {
namespace {

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out.append(text);
}

std::uint64_t aligned(std::uint64_t offset) {
  return static_cast<std::uint64_t>(
      round_up(static_cast<std::int64_t>(offset), kMadeGgufAlignment));
}

// The format's numbers of tensor types.
std::uint32_t tensor_type(Encoding encoding) {
  switch (encoding) {
    case Encoding::kF32:
      return 0;
    case Encoding::kF16:
      return 1;
    case Encoding::kQ4_0:
      return 2;
    case Encoding::kQ4_1:
      return 3;
    case Encoding::kQ5_0:
      return 6;
    case Encoding::kQ5_1:
      return 7;
    case Encoding::kQ8_0:
      return 8;
    case Encoding::kQ4_K:
      return 12;
    case Encoding::kQ5_K:
      return 13;
    case Encoding::kQ6_K:
      return 14;
    case Encoding::kBF16:
      return 30;
    default:
      return 0;  // not written
  }
}

// What tools call a file of such tensors (general.file_type).
std::uint32_t file_type(std::string_view encoding) {
  constexpr std::pair<std::string_view, std::uint32_t> kTypes[] = {
      {"f32", 0}, {"f16", 1}, {"q4_0", 2}, {"q4_1", 3}, {"q8_0", 7}, {"q4_k_m", 15}, {"bf16", 32},
  };
  for (const auto& [name, type] : kTypes) {
    if (name == encoding) return type;
  }
  return 0;
}

class Keys {
 public:
  void number(std::string_view key, std::int64_t value) {
    begin(key, GgufType::kU32);
    append(bytes_, static_cast<std::uint32_t>(value));
  }
  void real(std::string_view key, double value) {
    begin(key, GgufType::kF32);
    append(bytes_, static_cast<float>(value));
  }
  void flag(std::string_view key, bool value) {
    begin(key, GgufType::kBool);
    append(bytes_, static_cast<std::uint8_t>(value));
  }
  void text(std::string_view key, std::string_view value) {
    begin(key, GgufType::kString);
    append_text(bytes_, value);
  }
  template <typename F>
  void array(std::string_view key, GgufType type, std::size_t count, F&& append_element) {
    begin(key, GgufType::kArray);
    append(bytes_, static_cast<std::uint32_t>(type));
    append<std::uint64_t>(bytes_, count);
    for (std::size_t i = 0; i < count; ++i) append_element(bytes_, i);
  }

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type) {
    append_text(bytes_, key);
    append(bytes_, static_cast<std::uint32_t>(type));
    ++count_;
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

std::string_view architecture(const ModelShape& shape) {
  switch (shape.family()) {
    case ShapeFamily::kQwen3Moe:
      return "qwen3moe";
    case ShapeFamily::kDeepseekV2:
      return "deepseek2";
    case ShapeFamily::kLlama:
      break;
  }
  return "llama";
}

// What the cache of a token has is one key, of which the latent is the value; the keys and values
// that are made of it have their own sizes.
void add_latent(Keys& keys, const ModelShape& shape) {
  const ShapeLatent& latent = shape.latent;
  const auto name = [](std::string_view key) { return fmt::format("deepseek2.{}", key); };
  keys.number(name("attention.head_count_kv"), 1);
  keys.number(name("attention.kv_lora_rank"), latent.latent_dims);
  keys.number(name("attention.key_length"), latent.latent_dims + latent.rope_dims);
  keys.number(name("attention.value_length"), latent.latent_dims);
  keys.number(name("attention.key_length_mla"), latent.key_dims + latent.rope_dims);
  keys.number(name("attention.value_length_mla"), latent.value_dims);
  keys.number(name("rope.dimension_count"), latent.rope_dims);
  // Readers ask for experts, although no layer has them.
  keys.number(name("leading_dense_block_count"), shape.num_layers);
  keys.number(name("expert_count"), 64);
  keys.number(name("expert_used_count"), 6);
  keys.number(name("expert_shared_count"), 2);
  keys.number(name("expert_feed_forward_length"), 1408);
  keys.real(name("expert_weights_scale"), 1.0);
}

void add_heads(Keys& keys, const ModelShape& shape) {
  const auto name = [&](std::string_view key) {
    return fmt::format("{}.{}", architecture(shape), key);
  };
  keys.number(name("attention.head_count_kv"), shape.num_kv_heads);
  keys.number(name("attention.key_length"), shape.head_dim());
  keys.number(name("attention.value_length"), shape.head_dim());
  keys.number(name("rope.dimension_count"), shape.head_dim());
  if (shape.experts.num_experts == 0) return;
  keys.number(name("expert_count"), shape.experts.num_experts);
  keys.number(name("expert_used_count"), shape.experts.experts_per_token);
  keys.number(name("expert_feed_forward_length"), shape.experts.intermediate_size);
}

void add_shape(Keys& keys, const ModelShape& shape) {
  const auto name = [&](std::string_view key) {
    return fmt::format("{}.{}", architecture(shape), key);
  };
  keys.number(name("vocab_size"), shape.vocab_size);
  keys.number(name("context_length"), shape.max_position_embeddings);
  keys.number(name("embedding_length"), shape.hidden_size);
  keys.number(name("block_count"), shape.num_layers);
  keys.number(name("feed_forward_length"), shape.intermediate_size);
  keys.number(name("attention.head_count"), shape.num_heads);
  keys.real(name("attention.layer_norm_rms_epsilon"), shape.rms_norm_eps);
  keys.real(name("rope.freq_base"), shape.rope_theta);
  if (shape.family() == ShapeFamily::kDeepseekV2) {
    add_latent(keys, shape);
  } else {
    add_heads(keys, shape);
  }
}

void add_tokenizer(Keys& keys, const SyntheticVocab& vocab) {
  constexpr std::int32_t kNormal = 1;
  constexpr std::int32_t kControl = 3;
  keys.text("tokenizer.ggml.model", "gpt2");
  keys.text("tokenizer.ggml.pre", "gpt-2");
  keys.array("tokenizer.ggml.tokens", GgufType::kString, vocab.tokens.size(),
             [&](std::string& out, std::size_t i) { append_text(out, vocab.tokens[i]); });
  keys.array("tokenizer.ggml.token_type", GgufType::kI32, vocab.tokens.size(),
             [&](std::string& out, std::size_t i) {
               append(out,
                      static_cast<std::int64_t>(i) < vocab.first_control_id() ? kNormal : kControl);
             });
  keys.array("tokenizer.ggml.merges", GgufType::kString, vocab.merges.size(),
             [&](std::string& out, std::size_t i) {
               append_text(out, vocab.merges[i].first + " " + vocab.merges[i].second);
             });
  keys.number("tokenizer.ggml.bos_token_id", vocab.bos_id);
  keys.number("tokenizer.ggml.eos_token_id", vocab.eos_id);
  keys.number("tokenizer.ggml.eot_token_id", vocab.end_of_turn_id);
  keys.flag("tokenizer.ggml.add_bos_token", false);
  keys.text("tokenizer.chat_template", synthetic_chat_template());
}

}  // namespace

std::string gguf_header(const ModelShape& shape, const SyntheticVocab& vocab,
                        std::string_view encoding, std::span<const MadeTensor> tensors) {
  Keys keys;
  keys.text("general.architecture", architecture(shape));
  keys.text("general.name", fmt::format("{} (random weights)", shape.name));
  keys.number("general.file_type", file_type(encoding));
  keys.number("general.quantization_version", 2);
  keys.number("general.alignment", kMadeGgufAlignment);
  add_shape(keys, shape);
  add_tokenizer(keys, vocab);

  constexpr std::uint32_t kVersion = 3;
  std::string out = "GGUF";
  append(out, kVersion);
  append<std::uint64_t>(out, tensors.size());
  append<std::uint64_t>(out, keys.count());
  out += keys.bytes();
  std::uint64_t offset = 0;
  for (const MadeTensor& tensor : tensors) {
    append_text(out, tensor.name);
    const bool stacked = tensor.matrices > 1;
    append<std::uint32_t>(out, tensor.is_vector ? 1 : stacked ? 3 : 2);
    append(out, static_cast<std::uint64_t>(tensor.cols));  // innermost first
    if (!tensor.is_vector) append(out, static_cast<std::uint64_t>(tensor.rows / tensor.matrices));
    if (stacked) append(out, static_cast<std::uint64_t>(tensor.matrices));
    append(out, tensor_type(tensor.encoding));
    append(out, offset);
    offset = aligned(offset + tensor.bytes());
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

}  // namespace quire
