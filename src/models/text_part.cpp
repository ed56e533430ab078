#include "models/text_part.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "models/config_keys.h"

namespace quire {
namespace {

// A text model by the `model_type` of its configuration. `defaults`: the reference's, of the keys
// that published files leave out.
struct TextModel {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view defaults;
  bool mrope = false;  // positions in three sections, which of text alone are the same
};

constexpr TextModel kTextModels[] = {
    {"gemma3_text", "Gemma3ForCausalLM",
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6})"},
    {"gemma3n_text", "Gemma3nForCausalLM",
     R"({"vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384,
         "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
         "head_dim": 256, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6})"},
    {"gemma4_text", "Gemma4ForCausalLM",
     R"({"vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6})"},
    {"llama", "LlamaForCausalLM",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-6})"},
    {"llama4_text", "Llama4ForCausalLM",
     R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
         "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})"},
    {"mistral", "MistralForCausalLM",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-6})"},
    {"ministral3", "Ministral3ForCausalLM",
     R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128, "max_position_embeddings": 262144, "rms_norm_eps": 1e-5})"},
    {"qwen2", "Qwen2ForCausalLM",
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-6})"},
    {"qwen2_vl_text", "Qwen2ForCausalLM", R"({"rope_theta": 1000000.0})", true},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", R"({"rope_theta": 1000000.0})", true},
    {"qwen3_vl_text", "Qwen3ForCausalLM", R"({"rope_theta": 500000.0})", true},
    {"qwen3", "Qwen3ForCausalLM", "{}"},
    {"cohere2", "Cohere2ForCausalLM", "{}"},
};

struct MultimodalModel {
  std::string_view architecture;
  std::string_view model_type;  // of the text model, where the configuration does not say
};

constexpr MultimodalModel kMultimodalModels[] = {
    {"Gemma3ForConditionalGeneration", "gemma3_text"},
    {"Gemma3nForConditionalGeneration", "gemma3n_text"},
    {"Gemma4ForConditionalGeneration", "gemma4_text"},
    {"Mistral3ForConditionalGeneration", "mistral"},
    {"Llama4ForConditionalGeneration", "llama4_text"},
    {"LlavaForConditionalGeneration", "llama"},
    {"LlavaNextForConditionalGeneration", "llama"},
    {"LlavaOnevisionForConditionalGeneration", "qwen2"},
    {"AyaVisionForConditionalGeneration", "cohere2"},
    {"InternVLForConditionalGeneration", "qwen2"},
    {"Qwen2VLForConditionalGeneration", "qwen2_vl_text"},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text"},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl_text"},
};

// What stands before the text model's names in the published checkpoints: its own class as a part,
// its base class as a part of the whole's, or nothing.
constexpr NamePrefix kPrefixes[] = {
    {"", "language_model."},
    {"model.", "model.language_model."},
    {"", ""},
};

// The other parts, with or without "model." before them.
constexpr std::string_view kOtherParts[] = {
    "vision_tower",  "vision_model", "visual",       "multi_modal_projector",
    "image_newline", "audio_tower",  "embed_vision", "embed_audio",
};

// The part that a tensor of this name is of; empty for the text model.
std::string_view other_part(std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  for (const std::string_view part : kOtherParts) {
    if (name == part || (name.starts_with(part) && name[part.size()] == '.')) return part;
  }
  return {};
}

// Positions in sections (Qwen2-VL's "mrope") are the usual ones where a text has all three alike.
void make_plain(json::object& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    json::value* const rope = config.if_contains(key);
    if (rope == nullptr || !rope->is_object()) continue;
    json::object& object = rope->get_object();
    object.erase("mrope_section");
    object.erase("mrope_interleaved");
    for (const std::string_view type : {"type", "rope_type"}) {
      json::value* const name = object.if_contains(type);
      if (name != nullptr && *name == "mrope") *name = "default";
    }
  }
}

// Checkpoints that were saved from the base class have names without its part (GPT-2, BLOOM, OPT).
void strip_base_class(const WeightSource& weights, TensorNames& names) {
  const std::string embedding = names.name(TensorRole::kEmbedding);
  if (weights.find(embedding) != nullptr) return;
  for (const std::string_view base : {"model.", "transformer."}) {
    if (embedding.starts_with(base) && weights.find(embedding.substr(base.size())) != nullptr) {
      names.prefix = {base, ""};
    }
  }
}

bool is_true(const json::object& config, std::string_view key) {
  const json::value* const value = config.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

// Shows the tensors of one part of a checkpoint.
class PartialSource : public WeightSource {
 public:
  PartialSource(std::unique_ptr<WeightSource> whole, std::vector<TensorInfo> tensors)
      : whole_(std::move(whole)), tensors_(std::move(tensors)) {}

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    return other_part(name).empty() ? whole_->find(name) : nullptr;
  }
  Result<TensorRows> rows(const TensorInfo& tensor, ThreadPool& pool) const override {
    return whole_->rows(tensor, pool);
  }
  void release(std::span<const std::uint8_t> data) const override { whole_->release(data); }
  std::vector<const MappedFile*> files() const override { return whole_->files(); }

 private:
  std::unique_ptr<WeightSource> whole_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

Result<std::optional<TextPart>> read_text_part(const JsonReader& config,
                                               std::string_view architecture) {
  const auto* const model =
      std::ranges::find(kMultimodalModels, architecture, &MultimodalModel::architecture);
  if (model == std::end(kMultimodalModels)) return std::optional<TextPart>();
  // The first Qwen-VL have their text model's keys beside those of the whole.
  JsonReader own = config;
  if (config.contains("text_config")) {
    QUIRE_ASSIGN_OR_RETURN(own, config.get_object("text_config"));
  }
  std::string model_type(model->model_type);
  if (config.contains("text_config")) {
    QUIRE_ASSIGN_OR_RETURN(const auto said, own.find_string("model_type"));
    if (said) model_type = *said;
  }
  const auto* const text = std::ranges::find(kTextModels, model_type, &TextModel::model_type);
  if (text == std::end(kTextModels)) {
    return Status::unimplemented(fmt::format("{}: the text model \"{}\" of {} is not supported",
                                             own.where(), printable(model_type), architecture));
  }
  TextPart part = {.architecture = text->architecture, .config = own.object()};
  QUIRE_ASSIGN_OR_RETURN(const json::value defaults, parse_json(text->defaults, "defaults"));
  for (const auto& [key, value] : defaults.get_object()) {
    if (!own.contains(key)) part.config[key] = value;
  }
  if (text->mrope) make_plain(part.config);
  constexpr std::string_view kTied = "tie_word_embeddings";
  part.says_tied = config.contains(kTied) || own.contains(kTied);
  part.config[kTied] = is_true(config.object(), kTied) || is_true(own.object(), kTied);
  return std::optional(std::move(part));
}

std::vector<std::string> multimodal_architectures() {
  std::vector<std::string> names;
  for (const MultimodalModel& model : kMultimodalModels) names.emplace_back(model.architecture);
  return names;
}

std::string SkippedTensors::to_text() const {
  return fmt::format("{} tensors, {} bytes of {}", tensors, bytes, fmt::join(parts, ", "));
}

TextWeights select_text_weights(std::unique_ptr<WeightSource> weights, DecoderSpec& spec) {
  TextWeights result;
  if (!spec.text_part) {
    strip_base_class(*weights, spec.names);
    result.weights = std::move(weights);
    return result;
  }
  for (const NamePrefix& prefix : kPrefixes) {
    spec.names.prefix = prefix;
    if (weights->find(spec.names.name(TensorRole::kEmbedding)) != nullptr) break;
  }
  for (std::string& unread : spec.unread_tensors) unread = spec.names.placed(unread);
  // Where the class of the whole has the output matrix, it stands outside of its base model.
  if (spec.tied_without_output && weights->find(spec.names.name(TensorRole::kOutput)) == nullptr) {
    spec.tie_word_embeddings = true;
  }
  std::vector<TensorInfo> tensors;
  for (const TensorInfo& tensor : weights->tensors()) {
    const std::string_view part = other_part(tensor.name);
    if (part.empty()) {
      tensors.push_back(tensor);
      continue;
    }
    ++result.skipped.tensors;
    result.skipped.bytes += tensor.bytes();
    if (std::ranges::find(result.skipped.parts, part) == result.skipped.parts.end()) {
      result.skipped.parts.emplace_back(part);
    }
  }
  result.weights = std::make_unique<PartialSource>(std::move(weights), std::move(tensors));
  return result;
}

}  // namespace quire
