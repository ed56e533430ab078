// A model as it lies on disk, opened but not loaded: what kind it is, its spec, its tensors, its
// tokenizer and its chat template. `quire inspect` stops here; an engine goes on to load weights.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "load/embedding_defaults.h"
#include "load/generation_defaults.h"
#include "models/spec.h"
#include "models/text_part.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/gguf.h"
#include "weights/model_files.h"
#include "weights/weight_source.h"

namespace quire {

// The text side of a model.
struct TextBundle {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
};

struct ModelBundle {
  std::string name;  // of the folder or file
  ModelFiles files;
  DecoderSpec spec;
  std::unique_ptr<WeightSource> weights;  // those of `spec`
  SkippedTensors skipped;                 // others that the checkpoint has, of images and the like
  TextBundle text;
  GenerationDefaults generation_defaults;  // with those of generation_config.json
  EmbeddingDefaults embedding_defaults;
};

// A file of configuration, which has to be a JSON object (kNotFound, kBadModel).
Result<json::value> read_config_file(const std::filesystem::path& path);

// The text side alone, also of a file that contains nothing else. Errors as below.
Result<TextBundle> open_text(const std::string& path);

// Takes the chat template from a file of Jinja, unless `path` is empty. kNotFound, or the
// template's own errors.
Status replace_chat_template(TextBundle& text, const std::string& path);

// Opens everything at `path`; the tokenizer and template from `tokenizer_path` instead, unless that
// is empty. Errors name file, key or tensor (kNotFound, kBadModel, kUnimplemented).
Result<ModelBundle> open_model(const std::string& path, const std::string& tokenizer_path);

}  // namespace quire
