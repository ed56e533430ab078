// What kind of model lies at the path that a user gave, and in which files.
#pragma once

#include <filesystem>
#include <optional>

#include "base/status.h"

namespace quire {

struct ModelFiles {
  enum class Kind {
    kHuggingFace,  // a folder with config.json and safetensors: open_safetensors(path)
    kGguf,         // a file with everything, or its first part: GgufFile::open(path)
    kMistral,      // a folder as Mistral AI writes it: params.json, consolidated safetensors
  };

  Kind kind = Kind::kHuggingFace;
  std::filesystem::path path;  // the folder, or the .gguf file

  // In the folder, or beside the .gguf file.
  std::optional<std::filesystem::path> generation_config;  // generation_config.json

  std::optional<std::filesystem::path> params;  // params.json, of a kMistral folder

  // Of a folder; `config` is always there in a kHuggingFace one and never in the other, the rest
  // where the folder has them.
  std::optional<std::filesystem::path> config;            // config.json
  std::optional<std::filesystem::path> tokenizer;         // tokenizer.json
  std::optional<std::filesystem::path> tokenizer_config;  // tokenizer_config.json
  std::optional<std::filesystem::path> chat_template;     // chat_template.jinja
  std::optional<std::filesystem::path> modules;           // modules.json: sentence-transformers
};

// `path` is a folder in Hugging Face layout, one in Mistral AI's, a .gguf file, or a folder with
// exactly one .gguf file, or one such file's parts (the first of these that it is). Opens no
// tensor. Errors:
// kNotFound if nothing is there or the folder contains no model (the message lists what was looked
// for), kInvalidArgument for several .gguf files (listed), kBadModel for pickles, which are never
// loaded, and for a file of another kind (named where it is recognized).
Result<ModelFiles> find_model_files(const std::filesystem::path& path);

}  // namespace quire
