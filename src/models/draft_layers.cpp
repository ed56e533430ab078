#include "models/draft_layers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "models/llama.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kEagleArchitectures = {
    "LlamaForCausalLM", "LlamaForCausalLMEagle", "EagleLlamaForCausalLM"};

constexpr TensorName kEagleNames[] = {
    {TensorRole::kStateProjection, "model.fc.weight"},
    {TensorRole::kStateProjectionBias, "model.fc.bias"},
};

Status check_eagle_architecture(const JsonReader& config) {
  const json::value* const list = config.find("architectures");
  if (list == nullptr || !list->is_array() || list->get_array().empty() ||
      !list->get_array()[0].is_string()) {
    return config.type_error("architectures", "a list of names");
  }
  const std::string_view name = list->get_array()[0].get_string();
  if (std::ranges::find(kEagleArchitectures, name) != kEagleArchitectures.end()) return {};
  const bool third = name.find("agle3") != name.npos;
  return Status::unimplemented(
      fmt::format("{}: architecture \"{}\" is not supported as EAGLE{}", config.where(),
                  printable(name), third ? ": it is EAGLE-3's" : ""),
      "use a checkpoint of EAGLE for a Llama model");
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
  QUIRE_RETURN_IF_ERROR(check_eagle_architecture(config));
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

Status expect_size(const JsonReader& config, std::string_view key, std::int64_t value,
                   std::int64_t expected) {
  if (value == expected) return {};
  return Status::config(
      fmt::format("{}: {} is {}, that of the model {}", config.where(), key, value, expected),
      "use a checkpoint that was trained for the model");
}

}  // namespace quire
