#include "support/model_forms.h"

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "weights/gguf.h"
#include "weights/safetensors_header.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = 64U << 20;
constexpr std::size_t kAlignment = 32;
constexpr std::size_t kGgufHeader = 24;  // magic, version, tensors, keys

template <typename T>
std::string le(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string gguf_key(std::string_view name, GgufType type, std::string_view value) {
  return le<std::uint64_t>(name.size()) + std::string(name) + le(type) + std::string(value);
}

// The head of a part, `more` keys of which the caller appends.
std::string gguf_part(int number, std::uint64_t tensors, std::uint64_t all_tensors,
                      std::uint64_t more) {
  return "GGUF" + le<std::uint32_t>(3) + le(tensors) + le<std::uint64_t>(3 + more) +
         gguf_key("split.no", GgufType::kU16, le(static_cast<std::uint16_t>(number))) +
         gguf_key("split.count", GgufType::kU16, le<std::uint16_t>(2)) +
         gguf_key("split.tensors.count", GgufType::kI32,
                  le(static_cast<std::int32_t>(all_tensors)));
}

Status write(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file ? Status() : Status::bad_model(path.string() + " cannot be written");
}

std::string renamed(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model.embed_tokens", "tok_embeddings"},
      {"lm_head", "output"},
      {"model.", ""},
      {"input_layernorm", "attention_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attention.wq"},
      {"self_attn.k_proj", "attention.wk"},
      {"self_attn.v_proj", "attention.wv"},
      {"self_attn.o_proj", "attention.wo"},
      {"mlp.gate_proj", "feed_forward.w1"},
      {"mlp.down_proj", "feed_forward.w2"},
      {"mlp.up_proj", "feed_forward.w3"}};
  for (const auto& [from, to] : kNames) {
    if (const std::size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, from.size(), to);
    }
  }
  return name;
}

}  // namespace

Status write_gguf_parts(const fs::path& gguf, const fs::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(const std::string bytes, read_file(gguf, kMaxBytes));
  QUIRE_ASSIGN_OR_RETURN(const auto file, GgufFile::open(gguf));
  const auto entries = file->metadata().entries();
  const std::size_t keys_end = entries.back().file_offset + entries.back().data.size();
  const std::uint64_t tensors = file->tensors().size();

  const std::string keys = bytes.substr(kGgufHeader, keys_end - kGgufHeader);
  QUIRE_RETURN_IF_ERROR(
      write(folder / "model-00001-of-00002.gguf", gguf_part(0, 0, tensors, entries.size()) + keys));
  // Tensors keep their places within a line of the alignment.
  std::string second = gguf_part(1, tensors, tensors, 1);
  const std::string empty = gguf_key("general.name", GgufType::kString, le<std::uint64_t>(0));
  const std::size_t padding =
      (keys_end + kAlignment - (second.size() + empty.size()) % kAlignment) % kAlignment;
  second += gguf_key("general.name", GgufType::kString,
                     le<std::uint64_t>(padding) + std::string(padding, 'x'));
  return write(folder / "model-00002-of-00002.gguf", second + bytes.substr(keys_end));
}

Status write_mistral_form(const fs::path& checkpoint, const fs::path& folder) {
  constexpr std::string_view kParams =
      R"({"dim": 32, "n_layers": 2, "head_dim": 24, "hidden_dim": 64, "n_heads": 4, "n_kv_heads": 2,
          "norm_eps": 1e-05, "vocab_size": 128, "sliding_window": 20, "max_seq_len": 256})";
  QUIRE_RETURN_IF_ERROR(write(folder / "params.json", kParams));

  const fs::path weights = checkpoint / "model.safetensors";
  QUIRE_ASSIGN_OR_RETURN(const std::string bytes, read_file(weights, kMaxBytes));
  QUIRE_ASSIGN_OR_RETURN(const SafetensorsHeader header,
                         read_safetensors_header(std::as_bytes(std::span(bytes)), "weights"));
  json::object entries;
  for (const auto& [name, entry] : header.entries) entries[renamed(name)] = entry;
  const std::string text = json::serialize(entries);
  QUIRE_RETURN_IF_ERROR(write(folder / "consolidated.safetensors",
                              le<std::uint64_t>(text.size()) + text +
                                  bytes.substr(static_cast<std::size_t>(header.data_start))));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(checkpoint / name, folder / name);
  }
  return {};
}

}  // namespace quire::test
