#include "hub/file_choice.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::size_t kMaxShards = 10'000;

// What load/ reads beside the weights; the last ones are a sentence-transformers model's.
constexpr std::array<std::string_view, 17> kBesideWeights = {"config.json",
                                                             "generation_config.json",
                                                             "tokenizer.json",
                                                             "tokenizer.model",
                                                             "tokenizer_config.json",
                                                             "special_tokens_map.json",
                                                             "added_tokens.json",
                                                             "vocab.json",
                                                             "merges.txt",
                                                             "vocab.txt",
                                                             "tiktoken.model",
                                                             "tekken.json",
                                                             "params.json",
                                                             "chat_template.jinja",
                                                             "quantize_config.json",
                                                             "modules.json",
                                                             "sentence_bert_config.json"};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "model" of "model-00001-of-00003", with both numbers; the whole stem where it has none.
struct SplitName {
  std::string_view stem;
  int part = 1;
  int parts = 1;
};

SplitName split_name(std::string_view stem) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00003").size();
  constexpr std::size_t kDigits = 5;
  if (stem.size() <= kTail) return {.stem = stem};
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const auto number = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  const auto part = number(tail.substr(1, kDigits));
  const auto parts = number(tail.substr(kTail - kDigits));
  if (tail[0] != '-' || tail.substr(1 + kDigits, 4) != "-of-" || !part || !parts) {
    return {.stem = stem};
  }
  return {.stem = stem.substr(0, stem.size() - kTail), .part = *part, .parts = *parts};
}

// The GGUF models of a repository, by path without parts and ending; each with its files by part.
struct GgufModel {
  std::map<int, std::string> files;
  int parts = 1;
};

std::map<std::string, GgufModel> gguf_models(const std::vector<std::string>& names) {
  constexpr std::string_view kEnding = ".gguf";
  std::map<std::string, GgufModel> models;
  for (const std::string& name : names) {
    const std::string_view base = file_name(name);
    // What sees images, and what quantizing was tuned with, are no language models.
    if (!name.ends_with(kEnding) || lower(base).starts_with("mmproj") ||
        lower(base).find("imatrix") != std::string::npos) {
      continue;
    }
    const std::string_view stem = std::string_view(name).substr(0, name.size() - kEnding.size());
    const SplitName split = split_name(stem);
    GgufModel& model = models[std::string(split.stem)];
    model.files[split.part] = name;
    model.parts = std::max(model.parts, split.parts);
  }
  return models;
}

// Whether "models/x-Q4_K_M" or "Q4_K_M/x" is what `wanted` asks for.
bool is_wanted(std::string_view stem, const GgufModel& model, std::string_view wanted) {
  for (const auto& [part, name] : model.files) {
    if (name == wanted || file_name(name) == wanted) return true;
  }
  const std::string tag = lower(wanted);
  const std::string path = lower(stem);
  if (path == tag || path.starts_with(tag + "/") || path.find("/" + tag + "/") != path.npos) {
    return true;
  }
  if (!path.ends_with(tag)) return false;
  const char before = path[path.size() - tag.size() - 1];
  return before == '-' || before == '.' || before == '_' || before == '/';
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 12;
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() < kShown) shown.push_back(printable(name));
  }
  const std::string more =
      names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), more);
}

Result<FileChoice> choose_gguf(const std::vector<std::string>& names, std::string_view wanted,
                               std::string_view where) {
  const auto models = gguf_models(names);
  std::vector<std::string> all;
  const GgufModel* chosen = nullptr;
  std::vector<std::string> fitting;
  for (const auto& [stem, model] : models) {
    all.push_back(model.files.begin()->second);
    if (!wanted.empty() && !is_wanted(stem, model, wanted)) continue;
    fitting.push_back(model.files.begin()->second);
    chosen = &model;
  }
  if (fitting.empty()) {
    return Status::not_found(
        fmt::format("{} has no GGUF file {}", where, printable(wanted)),
        all.empty() ? "it has none at all" : fmt::format("it has {}", listed(all)));
  }
  if (fitting.size() > 1) {
    return Status::invalid_argument(
        fmt::format("{} has {} GGUF models{}: {}", where, fitting.size(),
                    wanted.empty() ? "" : fmt::format(" that fit {}", printable(wanted)),
                    listed(fitting)),
        "name one behind a colon, by its encoding (:Q4_K_M) or its file");
  }
  FileChoice choice;
  for (const auto& [part, name] : chosen->files) choice.files.push_back(name);
  if (static_cast<int>(choice.files.size()) != chosen->parts) {
    return Status::bad_model(
        fmt::format("{} has {} of the {} parts of {}", where, choice.files.size(), chosen->parts,
                    printable(choice.files.front())),
        "ask its authors for the others, or choose another file");
  }
  choice.gguf = choice.files.front();
  if (contains(names, "generation_config.json")) {
    choice.files.insert(choice.files.begin(), "generation_config.json");
  }
  return choice;
}

FileChoice choose_safetensors(const std::vector<std::string>& names) {
  FileChoice choice;
  for (const std::string_view name : kBesideWeights) {
    if (contains(names, name)) choice.files.emplace_back(name);
  }
  for (const std::string& name : names) {
    // The configuration of each module, and vocabularies that carry the model's name.
    const bool is_module = name.ends_with("/config.json") && contains(names, "modules.json");
    const bool is_vocabulary = name.ends_with(".tiktoken") && name.find('/') == name.npos;
    if (is_module || is_vocabulary) choice.files.push_back(name);
  }
  if (contains(names, kSingle)) {
    choice.files.emplace_back(kSingle);
  } else {
    choice.index = kIndex;
    choice.files.emplace_back(kIndex);
  }
  return choice;
}

Status nothing_to_read(const std::vector<std::string>& names, std::string_view where) {
  std::vector<std::string> weights;
  for (const std::string& name : names) {
    for (const std::string_view ending : {".bin", ".pt", ".pth", ".safetensors", ".onnx", ".h5"}) {
      if (name.ends_with(ending)) weights.push_back(name);
    }
  }
  const bool pickles = std::ranges::any_of(
      weights, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  return Status::not_found(
      fmt::format("{} has no weights that Quire reads: looked for {}, {} and *.gguf{}{}", where,
                  kSingle, kIndex, weights.empty() ? "" : ", found ", listed(weights)),
      pickles ? "look for the model as safetensors or GGUF: pickles can run code and are never read"
              : "is it a language model?");
}

}  // namespace

Result<FileChoice> choose_files(const std::vector<std::string>& names, std::string_view wanted,
                                std::string_view where) {
  if (!wanted.empty()) return choose_gguf(names, wanted, where);
  if (contains(names, kSingle) || contains(names, kIndex)) return choose_safetensors(names);
  if (gguf_models(names).empty()) return nothing_to_read(names, where);
  return choose_gguf(names, wanted, where);
}

Result<std::vector<std::string>> shards_of_index(std::string_view json,
                                                 const std::vector<std::string>& names,
                                                 std::string_view where) {
  const auto value = parse_json(json, where);
  if (!value.ok()) return Status::bad_model(value.status().message());
  const json::object* object = value->if_object();
  const json::value* map = object == nullptr ? nullptr : object->if_contains("weight_map");
  if (map == nullptr || !map->is_object()) {
    return Status::bad_model(fmt::format("{}: no object weight_map", where));
  }
  const std::set<std::string_view> known(names.begin(), names.end());
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map->get_object()) {
    if (!file.is_string() || !known.contains(file.get_string())) {
      return Status::bad_model(fmt::format("{}: {} lies in {}, which is no file of the repository",
                                           where, printable(std::string_view(tensor)),
                                           file.is_string()
                                               ? printable(std::string_view(file.get_string()))
                                               : std::string(json_kind_name(file))));
    }
    shards.emplace(file.get_string());
    if (shards.size() > kMaxShards) {
      return Status::bad_model(fmt::format("{}: more than {} files", where, kMaxShards));
    }
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

}  // namespace quire
