#include "models/draft_layers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "models/config_keys.h"
#include "models/llama.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kEagleArchitectures = {
    "LlamaForCausalLM", "LlamaForCausalLMEagle", "EagleLlamaForCausalLM"};

constexpr TensorName kEagleNames[] = {
    {TensorRole::kStateProjection, "model.fc.weight"},
    {TensorRole::kStateProjectionBias, "model.fc.bias"},
};

// SafeAILab's, SGLang's and vLLM's.
constexpr std::array<std::string_view, 3> kEagle3Architectures = {
    "LlamaForCausalLM", "LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"};

constexpr TensorName kEagle3Names[] = {
    {TensorRole::kStateProjection, "fc.weight"},
    {TensorRole::kStateTokenNorm, "model.layers.0.input_layernorm.weight"},
    {TensorRole::kStateNorm, "model.layers.0.hidden_norm.weight"},
    {TensorRole::kDraftNorm, "norm.weight"},
    {TensorRole::kOutput, "lm_head.weight"},
};

Status check_eagle_architecture(const JsonReader& config,
                                std::span<const std::string_view> expected,
                                std::string_view method) {
  const json::value* const list = config.find("architectures");
  if (list == nullptr || !list->is_array() || list->get_array().empty() ||
      !list->get_array()[0].is_string()) {
    return config.type_error("architectures", "a list of names");
  }
  const std::string_view name = list->get_array()[0].get_string();
  if (std::ranges::find(expected, name) != expected.end()) return {};
  const bool third = method == "EAGLE" && name.find("agle3") != name.npos;
  return Status::unimplemented(
      fmt::format("{}: architecture \"{}\" is not supported as {}{}", config.where(),
                  printable(name), method, third ? ": it is EAGLE-3's, method \"eagle3\"" : ""),
      fmt::format("use a checkpoint of {} whose layer is a Llama's", method));
}

// A list of layers under `key`; `shift` makes them those that states enter.
Result<std::vector<std::int32_t>> read_inner_layers(const JsonReader& config, std::string_view key,
                                                    std::int32_t shift) {
  std::vector<std::int32_t> layers;
  QUIRE_ASSIGN_OR_RETURN(const auto* items, config.get_items(key));
  for (const json::value& item : *items) {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() > 10'000) {
      return config.type_error(key, "numbers of layers");
    }
    layers.push_back(static_cast<std::int32_t>(item.get_int64()) + shift);
  }
  return layers;
}

// vLLM's key counts layers before the state; the one in `eagle_config`, SGLang's, names the layers
// that give it. Without any, as EAGLE's own code has it.
Result<std::vector<std::int32_t>> inner_layers_of(const JsonReader& config,
                                                  std::int32_t num_layers) {
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  std::vector<std::int32_t> layers = {2, num_layers / 2, num_layers - 3};
  if (config.contains(kKey)) {
    QUIRE_ASSIGN_OR_RETURN(layers, read_inner_layers(config, kKey, 0));
  } else if (config.contains("eagle_config")) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader inner, config.get_object("eagle_config"));
    if (inner.contains(kKey)) {
      QUIRE_ASSIGN_OR_RETURN(layers, read_inner_layers(inner, kKey, 1));
    }
  }
  std::ranges::sort(layers);  // the order in which they are computed
  const bool differ = std::ranges::adjacent_find(layers) == layers.end();
  if (differ && layers.front() >= 0 && layers.back() <= num_layers) return layers;
  return Status::config(fmt::format("{}: it reads states before the layers {}; the model has {}",
                                    config.where(), fmt::join(layers, ", "), num_layers),
                        "use a checkpoint that was trained for the model");
}

}  // namespace

Result<DecoderSpec> mtp_spec(const DecoderSpec& model) {
  if (model.num_draft_layers == 0) {
    return Status::config(
        fmt::format("{}: the checkpoint has no layer that predicts tokens (MTP), or Quire does not "
                    "read it (num_nextn_predict_layers of config.json)",
                    model.architecture),
        "use another method, or a checkpoint of DeepSeek-V3 or GLM-4 MoE in Hugging Face's layout");
  }
  if (model.num_draft_layers > 1) {
    return Status::unimplemented(fmt::format("{}: the checkpoint has {} layers that predict tokens "
                                             "(MTP); only one is supported",
                                             model.architecture, model.num_draft_layers),
                                 "use another method");
  }
  DecoderSpec spec = model;
  spec.layers = {model.layers.back()};
  spec.names.first_layer = model.num_layers();
  spec.state_input = {.present = true, .norms = true};
  spec.num_draft_layers = 0;
  spec.unread_tensors.clear();
  for (std::int64_t layer = 0; layer < model.num_layers(); ++layer) {
    spec.unread_tensors.push_back(spec.names.placed(fmt::format("model.layers.{}.", layer)));
  }
  const std::string own = fmt::format("model.layers.{}.", model.num_layers());
  for (const std::string& name :
       {std::string("model.embed_tokens."), std::string("model.norm."), std::string("lm_head."),
        own + "embed_tokens.", own + "shared_head.head."}) {
    spec.unread_tensors.push_back(spec.names.placed(name));
  }
  return spec;
}

Result<DecoderSpec> eagle_spec(const JsonReader& config, const DecoderSpec& model, bool bias) {
  QUIRE_RETURN_IF_ERROR(check_eagle_architecture(config, kEagleArchitectures, "EAGLE"));
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, llama_from_config(config));
  spec.architecture = "EAGLE";
  QUIRE_RETURN_IF_ERROR(spec.validate(config.where()));
  QUIRE_RETURN_IF_ERROR(expect_size(config, "hidden_size", spec.hidden_size, model.hidden_size));
  QUIRE_RETURN_IF_ERROR(expect_size(config, "vocab_size", spec.vocab_size, model.vocab_size));
  spec.names = {.own = kEagleNames, .shared = spec.names.own, .prefix = {"model.", ""}};
  spec.state_input = {.present = true, .bias = bias};
  spec.final_norm = false;
  spec.layers.front().input_norm = false;
  spec.tie_word_embeddings = model.tie_word_embeddings;
  spec.logit_scale = model.logit_scale;
  spec.logit_soft_cap = model.logit_soft_cap;
  // The model's own.
  spec.unread_tensors = {"embed_tokens.", "lm_head."};
  return spec;
}

Result<Eagle3Spec> eagle3_spec(const JsonReader& config, const DecoderSpec& model, bool midlayer) {
  QUIRE_RETURN_IF_ERROR(check_eagle_architecture(config, kEagle3Architectures, "EAGLE-3"));
  Eagle3Spec spec;
  QUIRE_ASSIGN_OR_RETURN(spec.decoder, llama_from_config(config));
  DecoderSpec& decoder = spec.decoder;
  decoder.architecture = "EAGLE-3";
  QUIRE_RETURN_IF_ERROR(decoder.validate(config.where()));
  if (decoder.num_layers() != 1) {
    return Status::unimplemented(
        fmt::format("{}: {} layers; only one is supported", config.where(), decoder.num_layers()),
        "use a checkpoint with one layer");
  }
  QUIRE_RETURN_IF_ERROR(expect_size(config, "hidden_size", decoder.hidden_size, model.hidden_size));
  QUIRE_RETURN_IF_ERROR(expect_size(config, "vocab_size", decoder.vocab_size, model.vocab_size));
  QUIRE_ASSIGN_OR_RETURN(spec.inner_layers,
                         inner_layers_of(config, static_cast<std::int32_t>(model.num_layers())));
  QUIRE_ASSIGN_OR_RETURN(const auto vocab_size, config.find_int("draft_vocab_size"));
  QUIRE_ASSIGN_OR_RETURN(const bool normed, read_flag(config, "norm_before_residual", false));
  if (vocab_size && (*vocab_size < 1 || *vocab_size > model.vocab_size)) {
    return Status::bad_model(fmt::format("{}: draft_vocab_size is {}; expected 1 to {}",
                                         config.where(), *vocab_size, model.vocab_size));
  }
  decoder.vocab_size = vocab_size.value_or(model.vocab_size);
  decoder.tie_word_embeddings = false;
  decoder.names = {.own = kEagle3Names, .shared = decoder.names.own, .prefix = {"model.", ""}};
  if (midlayer) decoder.names.prefix = {"model.layers.0.", "midlayer."};
  decoder.state_input = {.present = true,
                         .norms = true,
                         .size = std::ssize(spec.inner_layers) * model.hidden_size,
                         .add_to_normed = normed};
  LayerSpec& layer = decoder.layers.front();
  layer.input_norm = false;
  layer.joined_input = true;
  std::get<AttentionSpec>(layer.mixer).inputs = 2 * decoder.hidden_size;
  // What both vocabularies have of one another is read apart; the embedding is the model's.
  decoder.unread_tensors = {"embed_tokens.", "d2t", "t2d"};
  return spec;
}

Status expect_size(const JsonReader& config, std::string_view key, std::int64_t value,
                   std::int64_t expected) {
  if (value == expected) return {};
  return Status::config(
      fmt::format("{}: {} is {}, that of the model {}", config.where(), key, value, expected),
      "use a checkpoint that was trained for the model");
}

}  // namespace quire
