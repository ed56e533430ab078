#include "load/tokenizer_folder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "base/printable.h"
#include "load/byte_ranks.h"
#include "load/merges_file.h"
#include "load/sentencepiece_model.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxVocabularyBytes = 256U << 20;

// The words of Qwen and of GPT-4, which differ in numbers.
constexpr std::string_view kSingleDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A class of tokenizers with a tiktoken file, as its published code has it.
struct TiktokenClass {
  std::string_view name;
  std::string_view regex;
  bool nfc = false;
  std::vector<std::string> specials = {};  // behind the file's tokens
};

std::vector<TiktokenClass> tiktoken_classes() {
  std::vector<std::string> qwen = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (int i = 0; i < 205; ++i) qwen.push_back(fmt::format("<|extra_{}|>", i));
  return {{"QWenTokenizer", kSingleDigits, true, std::move(qwen)},
          {"ChatGLM4Tokenizer", kThreeDigits}};
}

bool is_here(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The first file of the folder whose name fits, by name.
template <typename Fits>
std::optional<fs::path> first_file(const fs::path& folder, const Fits& fits) {
  std::optional<fs::path> first;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!fits(entry->path().filename().string()) || !is_here(entry->path())) continue;
    if (!first || entry->path() < *first) first = entry->path();
  }
  return first;
}

// tokenizer.model; Mistral AI writes which version of its own it is behind it.
std::optional<fs::path> tokenizer_model(const fs::path& folder) {
  if (fs::path path = folder / "tokenizer.model"; is_here(path)) return path;
  return first_file(folder,
                    [](std::string_view name) { return name.starts_with("tokenizer.model.v"); });
}

std::string class_of(const TokenizerConfigs& configs) {
  if (configs.tokenizer_config == nullptr) return {};
  const json::value* name = configs.tokenizer_config->if_contains("tokenizer_class");
  return name != nullptr && name->is_string() ? std::string(name->get_string()) : std::string();
}

Result<VocabData> tiktoken_vocab(std::string_view bytes, const fs::path& path,
                                 const TokenizerConfigs& configs) {
  const std::string name = class_of(configs);
  std::vector<std::string_view> known;
  const auto classes = tiktoken_classes();
  for (const TiktokenClass& each : classes) {
    known.push_back(each.name);
    if (each.name != name) continue;
    QUIRE_ASSIGN_OR_RETURN(VocabData data, read_tiktoken(bytes, each.regex, path.string()));
    if (each.nfc) data.normalizers.push_back({.kind = NormalizerStep::Kind::kNfc});
    for (const std::string& special : each.specials) {
      const AddedToken token = {
          .content = special, .id = static_cast<TokenId>(data.tokens.size()), .special = true};
      QUIRE_RETURN_IF_ERROR(add_token(token, path.string(), data));
    }
    QUIRE_RETURN_IF_ERROR(read_added_tokens_decoder(configs.tokenizer_config, data));
    QUIRE_RETURN_IF_ERROR(read_tokenizer_ends({}, configs, data));
    return data;
  }
  return Status::unimplemented(
      fmt::format("{}: a tiktoken file does not say how text is cut into words, and how the class "
                  "\"{}\" does it is not known",
                  path.string(), printable(name)),
      fmt::format("known are {}; a tokenizer.json says it itself", fmt::join(known, ", ")));
}

// SentencePiece's, with BOS before a text unless told otherwise, as Llama has it.
Result<VocabData> sentencepiece_file(std::string_view bytes, const fs::path& path,
                                     const TokenizerConfigs& configs) {
  QUIRE_ASSIGN_OR_RETURN(SentencePieceModel model, read_sentencepiece_model(bytes, path.string()));
  QUIRE_ASSIGN_OR_RETURN(VocabData data, sentencepiece_vocab(std::move(model), path.string()));
  QUIRE_RETURN_IF_ERROR(read_added_tokens_decoder(configs.tokenizer_config, data));
  AddedEnds ends;
  if (data.bos_id) ends.before = {*data.bos_id};
  QUIRE_RETURN_IF_ERROR(read_tokenizer_ends(ends, configs, data));
  return data;
}

}  // namespace

Result<VocabData> read_tokenizer_folder(const fs::path& folder, const TokenizerConfigs& configs) {
  if (const fs::path path = folder / "tekken.json"; is_here(path)) {
    QUIRE_ASSIGN_OR_RETURN(const auto file, read_json_file(path, kMaxVocabularyBytes));
    QUIRE_ASSIGN_OR_RETURN(VocabData data, read_tekken(file, path.string()));
    const AddedEnds ends = {.before = data.prefix_ids, .after = {}};
    QUIRE_RETURN_IF_ERROR(read_tokenizer_ends(ends, configs, data));
    return data;
  }
  if (const auto path = tokenizer_model(folder)) {
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes, read_file(*path, kMaxVocabularyBytes));
    return is_tiktoken(bytes) ? tiktoken_vocab(bytes, *path, configs)
                              : sentencepiece_file(bytes, *path, configs);
  }
  for (const std::string_view ending : {".tiktoken", "tiktoken.model"}) {
    const auto ends_so = [&](std::string_view name) { return name.ends_with(ending); };
    if (const auto path = first_file(folder, ends_so)) {
      QUIRE_ASSIGN_OR_RETURN(const std::string bytes, read_file(*path, kMaxVocabularyBytes));
      return tiktoken_vocab(bytes, *path, configs);
    }
  }
  if (is_here(folder / "vocab.json") && is_here(folder / "merges.txt")) {
    return read_merges_folder(folder, configs);
  }
  return Status::bad_model(
      fmt::format("{}: no tokenizer: looked for tokenizer.json, tekken.json, tokenizer.model, "
                  "*.tiktoken, vocab.json with merges.txt",
                  folder.string()),
      "fetch one, or name another folder with --tokenizer");
}

}  // namespace quire
