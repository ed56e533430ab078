#include "load/merges_file.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"
#include "load/tokenizer_json.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxMergesBytes = 256U << 20;
constexpr std::uint64_t kMaxMapBytes = 16U << 20;

constexpr std::string_view kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The object of a file that may be absent; null then.
Result<json::value> optional_object(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return json::value(nullptr);
  QUIRE_ASSIGN_OR_RETURN(auto value, read_json_file(path, kMaxMapBytes));
  if (!value.is_object()) {
    return Status::bad_model(fmt::format("{}: expected an object", path.string()));
  }
  return value;
}

// "text", or {"content": "text"}.
std::string content_of(const json::value& value) {
  const json::value* text = &value;
  if (value.is_object()) text = value.get_object().if_contains("content");
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : std::string();
}

// The special tokens that a configuration names.
void add_named(const json::object* config, std::set<std::string>& names) {
  if (config == nullptr) return;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                          "cls_token", "mask_token"}) {
    if (const json::value* value = config->if_contains(key)) names.insert(content_of(*value));
  }
  const json::value* more = config->if_contains("additional_special_tokens");
  if (more != nullptr && more->is_array()) {
    for (const json::value& each : more->get_array()) names.insert(content_of(each));
  }
}

json::array merge_lines(std::string_view text) {
  json::array merges;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_version = begin == 0 && line.starts_with("#version");
    if (!line.empty() && !is_version) merges.emplace_back(line);
    begin = end + 1;
  }
  return merges;
}

// How a class cuts text into words, as tokenizer.json says it; an empty object: not known.
json::object words_of_class(std::string_view name, bool prefix_space) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const bool is_gpt2 = name == "GPT2Tokenizer" || name == "CodeGenTokenizer" ||
                       name == "GPTNeoXTokenizer" || name == "RobertaTokenizer";
  if (is_gpt2) {
    return {{"pre_tokenizer",
             {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"use_regex", true}}}};
  }
  if (name != "Qwen2Tokenizer") return {};
  const json::object split = {
      {"type", "Split"}, {"pattern", {{"Regex", kQwenWords}}}, {"behavior", "Isolated"}};
  const json::object bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"use_regex", false}};
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array{split, bytes}}}}};
}

}  // namespace

Result<VocabData> read_merges_folder(const fs::path& folder, const TokenizerConfigs& configs) {
  const json::object none;
  const json::object& config =
      configs.tokenizer_config == nullptr ? none : *configs.tokenizer_config;
  const JsonReader reader(config, "tokenizer_config.json");
  QUIRE_ASSIGN_OR_RETURN(const auto name, reader.find_string("tokenizer_class"));
  QUIRE_ASSIGN_OR_RETURN(const auto prefix_space, reader.find_bool("add_prefix_space"));
  json::object file = words_of_class(name.value_or(""), prefix_space.value_or(false));
  if (file.empty()) {
    return Status::unimplemented(
        fmt::format("{}: vocab.json does not say how text is cut into words, and how the class "
                    "\"{}\" does it is not known",
                    folder.string(), printable(name.value_or(""))),
        "known are GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer, RobertaTokenizer and "
        "Qwen2Tokenizer; a tokenizer.json says it itself");
  }
  QUIRE_ASSIGN_OR_RETURN(json::value vocab, read_json_file(folder / "vocab.json", kMaxMergesBytes));
  if (!vocab.is_object()) {
    return Status::bad_model(
        fmt::format("{}: expected an object", (folder / "vocab.json").string()));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string merges,
                         read_file(folder / "merges.txt", kMaxMergesBytes));
  QUIRE_ASSIGN_OR_RETURN(const json::value map,
                         optional_object(folder / "special_tokens_map.json"));
  QUIRE_ASSIGN_OR_RETURN(const json::value added, optional_object(folder / "added_tokens.json"));

  std::set<std::string> specials = {"<|endoftext|>"};  // what these classes have by themselves
  add_named(configs.tokenizer_config, specials);
  add_named(map.if_object(), specials);
  json::array added_tokens;
  const auto add = [&](std::string_view content, const json::value& id) {
    const bool special = specials.contains(std::string(content));
    added_tokens.push_back({{"id", id}, {"content", content}, {"special", special}});
  };
  for (const auto& [content, id] : vocab.get_object()) {
    if (specials.contains(std::string(std::string_view(content)))) add(content, id);
  }
  if (const json::object* more = added.if_object()) {
    for (const auto& [content, id] : *more) {
      if (!vocab.get_object().contains(content)) add(content, id);
    }
  }
  file["added_tokens"] = std::move(added_tokens);
  file["decoder"] = {{"type", "ByteLevel"}};
  file["model"] = {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", merge_lines(merges)}};
  QUIRE_ASSIGN_OR_RETURN(VocabData data, read_tokenizer_json(file, nullptr, nullptr, nullptr,
                                                             (folder / "vocab.json").string()));
  QUIRE_RETURN_IF_ERROR(read_added_tokens_decoder(configs.tokenizer_config, data));
  QUIRE_RETURN_IF_ERROR(read_tokenizer_ends({}, configs, data));
  return data;
}

}  // namespace quire
