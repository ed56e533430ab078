#include "load/model_bundle.h"

#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "load/tokenizer_folder.h"
#include "load/tokenizer_gguf.h"
#include "load/tokenizer_json.h"
#include "models/registry.h"
#include "weights/hub_cache.h"
#include "weights/quantized_source.h"
#include "weights/safetensors.h"

namespace quire {
namespace {

// Far above published files: configurations are a few KB, tokenizer.json up to about 35 MB.
constexpr std::uint64_t kMaxConfigBytes = 16U << 20;
constexpr std::uint64_t kMaxTokenizerBytes = 256U << 20;
constexpr std::uint64_t kMaxTemplateBytes = 4U << 20;

// A JSON file that must be an object.
Result<json::value> read_object(const std::filesystem::path& path, std::uint64_t max_bytes) {
  QUIRE_ASSIGN_OR_RETURN(auto value, read_json_file(path, max_bytes));
  if (!value.is_object()) {
    return Status::bad_model(
        fmt::format("{}: expected an object, found {}", path.string(), json_kind_name(value)));
  }
  return value;
}

// The same for a file that may be absent; null then.
Result<json::value> read_optional_object(const std::optional<std::filesystem::path>& path) {
  if (!path) return json::value(nullptr);
  return read_config_file(*path);
}

// A chat template and what names it in errors: its file, with its key in there.
struct TemplateSource {
  std::string text;
  std::string where;
};

// The chat_template key of tokenizer_config.json: a template, or a list of named ones.
Result<std::optional<TemplateSource>> template_of_config(const json::value& config,
                                                         const std::string& where) {
  if (!config.is_object()) return std::optional<TemplateSource>();
  const JsonReader reader(config.get_object(), where);
  const json::value* value = reader.find("chat_template");
  if (value == nullptr) return std::optional<TemplateSource>();
  const std::string key = where + ": chat_template";
  if (value->is_string()) {
    return std::optional(TemplateSource{std::string(value->get_string()), key});
  }
  if (!value->is_array()) return reader.type_error("chat_template", "a string or a list");
  for (const json::value& item : value->get_array()) {
    if (!item.is_object()) return reader.type_error("chat_template", "a list of objects");
    const JsonReader named(item.get_object(), key);
    QUIRE_ASSIGN_OR_RETURN(const auto name, named.get_string("name"));
    if (name != "default") continue;
    QUIRE_ASSIGN_OR_RETURN(auto source, named.get_string("template"));
    return std::optional(TemplateSource{std::move(source), key + " \"default\""});
  }
  return std::optional<TemplateSource>();
}

Result<TextBundle> make_text_bundle(VocabData vocab, std::optional<TemplateSource> source,
                                    const std::string& where) {
  TextBundle text;
  auto tokenizer = Tokenizer::create(std::move(vocab));
  if (!tokenizer.ok()) {
    const Status status = tokenizer.status();
    return Status(status.code(), fmt::format("{}: {}", where, status.message()), status.remedy());
  }
  text.tokenizer = std::move(*tokenizer);
  if (source) {
    QUIRE_ASSIGN_OR_RETURN(text.chat_template, ChatTemplate::parse(source->text, source->where));
  }
  return text;
}

Result<VocabData> read_vocab(const ModelFiles& files, const TokenizerConfigs& configs) {
  if (!files.tokenizer) return read_tokenizer_folder(files.path, configs);
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer, read_object(*files.tokenizer, kMaxTokenizerBytes));
  return read_tokenizer_json(tokenizer, configs.tokenizer_config, configs.generation_config,
                             configs.model_config, files.tokenizer->string());
}

Result<TextBundle> open_folder_text(const ModelFiles& files) {
  QUIRE_ASSIGN_OR_RETURN(const auto config, read_optional_object(files.config));
  QUIRE_ASSIGN_OR_RETURN(const auto generation, read_optional_object(files.generation_config));
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer_config, read_optional_object(files.tokenizer_config));
  QUIRE_ASSIGN_OR_RETURN(VocabData vocab,
                         read_vocab(files, {tokenizer_config.if_object(), generation.if_object(),
                                            config.if_object()}));
  std::optional<TemplateSource> source;
  if (files.chat_template) {
    QUIRE_ASSIGN_OR_RETURN(auto text, read_file(*files.chat_template, kMaxTemplateBytes));
    source = {std::move(text), files.chat_template->string()};
  } else if (files.tokenizer_config) {
    QUIRE_ASSIGN_OR_RETURN(source,
                           template_of_config(tokenizer_config, files.tokenizer_config->string()));
  }
  return make_text_bundle(std::move(vocab), std::move(source),
                          files.tokenizer.value_or(files.path).string());
}

template <typename T>
Status take(Result<std::optional<T>> found, T& target) {
  QUIRE_ASSIGN_OR_RETURN(auto value, std::move(found));
  if (value) target = *std::move(value);
  return {};
}

template <typename T>
Status take(Result<std::optional<T>> found, std::optional<T>& target) {
  QUIRE_ASSIGN_OR_RETURN(target, std::move(found));
  return {};
}

// Every tokenizer.ggml.*_token_id that the file has, also those that nothing reads.
Status read_token_ids(const GgufFile& file, GgufTokenizerKeys& keys) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.";
  for (const GgufEntry& entry : file.metadata().entries()) {
    if (!entry.key.starts_with(kPrefix) || !entry.key.ends_with("_token_id")) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto id, file.find_int(std::string(entry.key)));
    if (id) keys.token_ids.emplace_back(entry.key.substr(kPrefix.size()), *id);
  }
  return {};
}

Result<TextBundle> open_gguf_text(const GgufFile& file) {
  GgufTokenizerKeys keys;
  QUIRE_ASSIGN_OR_RETURN(keys.model, file.get_string("tokenizer.ggml.model"));
  QUIRE_RETURN_IF_ERROR(take(file.find_string("tokenizer.ggml.pre"), keys.pre));
  QUIRE_RETURN_IF_ERROR(take(file.find_strings("tokenizer.ggml.tokens"), keys.tokens));
  QUIRE_RETURN_IF_ERROR(take(file.find_floats("tokenizer.ggml.scores"), keys.scores));
  QUIRE_RETURN_IF_ERROR(take(file.find_ints("tokenizer.ggml.token_type"), keys.token_type));
  QUIRE_RETURN_IF_ERROR(take(file.find_strings("tokenizer.ggml.merges"), keys.merges));
  QUIRE_RETURN_IF_ERROR(read_token_ids(file, keys));
  QUIRE_RETURN_IF_ERROR(take(file.find_int("tokenizer.ggml.bos_token_id"), keys.bos));
  QUIRE_RETURN_IF_ERROR(take(file.find_int("tokenizer.ggml.eos_token_id"), keys.eos));
  QUIRE_RETURN_IF_ERROR(take(file.find_int("tokenizer.ggml.eot_token_id"), keys.eot));
  QUIRE_RETURN_IF_ERROR(take(file.find_int("tokenizer.ggml.unknown_token_id"), keys.unk));
  QUIRE_RETURN_IF_ERROR(take(file.find_bool("tokenizer.ggml.add_bos_token"), keys.add_bos));
  QUIRE_RETURN_IF_ERROR(take(file.find_bool("tokenizer.ggml.add_eos_token"), keys.add_eos));
  QUIRE_RETURN_IF_ERROR(
      take(file.find_bool("tokenizer.ggml.add_space_prefix"), keys.add_space_prefix));
  QUIRE_ASSIGN_OR_RETURN(auto template_text, file.find_string("tokenizer.chat_template"));
  QUIRE_ASSIGN_OR_RETURN(VocabData vocab, read_tokenizer_gguf(std::move(keys), file.name()));
  std::optional<TemplateSource> source;
  if (template_text) {
    source = {*std::move(template_text), file.name() + ": tokenizer.chat_template"};
  }
  return make_text_bundle(std::move(vocab), std::move(source), file.name());
}

// Quantized or not, as config.json says, of the whole or of its text model.
Result<std::unique_ptr<WeightSource>> open_weights(const std::filesystem::path& folder,
                                                   const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(auto quantization, read_quantization_config(config));
  if (quantization.method == QuantizationMethod::kNone && config.contains("text_config")) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader text, config.get_object("text_config"));
    QUIRE_ASSIGN_OR_RETURN(quantization, read_quantization_config(text));
  }
  if (quantization.method == QuantizationMethod::kNone) return open_safetensors(folder);
  QUIRE_ASSIGN_OR_RETURN(auto source, open_safetensors(folder, SafetensorsTypes::kQuantized));
  return open_quantized(std::move(source), quantization);
}

std::string display_name(const std::filesystem::path& path) {
  if (const std::string name = hub_model_name(path); !name.empty()) return name;
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.has_filename() ? normal.filename().string()
                               : normal.parent_path().filename().string();
}

}  // namespace

Result<json::value> read_config_file(const std::filesystem::path& path) {
  return read_object(path, kMaxConfigBytes);
}

Result<TextBundle> open_text(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const ModelFiles files, find_model_files(path));
  if (files.kind != ModelFiles::Kind::kGguf) return open_folder_text(files);
  QUIRE_ASSIGN_OR_RETURN(const auto file, GgufFile::open(files.path));
  return open_gguf_text(*file);
}

Status replace_chat_template(TextBundle& text, const std::string& path) {
  constexpr std::uint64_t kMaxBytes = 1U << 20;
  if (path.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const std::string source, read_file(path, kMaxBytes));
  QUIRE_ASSIGN_OR_RETURN(text.chat_template, ChatTemplate::parse(source, path));
  return {};
}

Result<ModelBundle> open_model(const std::string& path, const std::string& tokenizer_path) {
  ModelBundle bundle;
  QUIRE_ASSIGN_OR_RETURN(bundle.files, find_model_files(path));
  bundle.name = display_name(bundle.files.path);
  if (bundle.files.kind == ModelFiles::Kind::kGguf) {
    QUIRE_ASSIGN_OR_RETURN(auto file, GgufFile::open(bundle.files.path));
    QUIRE_ASSIGN_OR_RETURN(bundle.spec, spec_from_gguf(*file));
    if (tokenizer_path.empty()) {
      QUIRE_ASSIGN_OR_RETURN(bundle.text, open_gguf_text(*file));
    }
    QUIRE_ASSIGN_OR_RETURN(bundle.generation_defaults, read_generation_defaults(*file));
    bundle.embedding_defaults = read_embedding_defaults(*file);
    bundle.weights = std::move(file);
  } else if (bundle.files.kind == ModelFiles::Kind::kMistral) {
    QUIRE_ASSIGN_OR_RETURN(const auto params, read_config_file(*bundle.files.params));
    const JsonReader reader(params.get_object(), bundle.files.params->string());
    QUIRE_ASSIGN_OR_RETURN(bundle.spec, spec_from_params(reader));
    QUIRE_ASSIGN_OR_RETURN(
        bundle.weights,
        open_safetensors(bundle.files.path, SafetensorsTypes::kFloats, kMistralWeights));
    if (tokenizer_path.empty()) {
      QUIRE_ASSIGN_OR_RETURN(bundle.text, open_folder_text(bundle.files));
    }
  } else {
    QUIRE_ASSIGN_OR_RETURN(const auto config, read_config_file(*bundle.files.config));
    const JsonReader reader(config.get_object(), bundle.files.config->string());
    QUIRE_ASSIGN_OR_RETURN(bundle.spec, spec_from_config(reader));
    QUIRE_ASSIGN_OR_RETURN(auto weights, open_weights(bundle.files.path, reader));
    TextWeights text = select_text_weights(std::move(weights), bundle.spec);
    bundle.weights = std::move(text.weights);
    bundle.skipped = std::move(text.skipped);
    bundle.embedding_defaults = read_embedding_defaults(bundle.files);
    if (tokenizer_path.empty()) {
      QUIRE_ASSIGN_OR_RETURN(bundle.text, open_folder_text(bundle.files));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const auto generation,
                         read_optional_object(bundle.files.generation_config));
  if (generation.is_object()) {  // one beside a GGUF file goes before the file's own keys
    QUIRE_ASSIGN_OR_RETURN(bundle.generation_defaults,
                           read_generation_defaults(JsonReader(
                               generation.get_object(), bundle.files.generation_config->string())));
  }
  if (!tokenizer_path.empty()) {
    QUIRE_ASSIGN_OR_RETURN(bundle.text, open_text(tokenizer_path));
  }
  return bundle;
}

}  // namespace quire
