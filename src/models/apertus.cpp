#include "models/apertus.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/config_keys.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// The others are Llama's.
constexpr TensorName kApertusNames[] = {
    {TensorRole::kInputNorm, "model.layers.{layer}.attention_layernorm.weight"},
    {TensorRole::kMlpNorm, "model.layers.{layer}.feedforward_layernorm.weight"},
    {TensorRole::kXieluAlphaP, "model.layers.{layer}.mlp.act_fn.alpha_p"},
    {TensorRole::kXieluAlphaN, "model.layers.{layer}.mlp.act_fn.alpha_n"},
    {TensorRole::kXieluBeta, "model.layers.{layer}.mlp.act_fn.beta"},
    {TensorRole::kXieluEpsilon, "model.layers.{layer}.mlp.act_fn.eps"},
};

// What the reference's class has where a file says nothing of positions.
Status read_apertus_rope(const JsonReader& config, DecoderDraft& draft) {
  if (config.contains("rope_parameters") || config.contains("rope_scaling")) {
    return read_rope(config, draft.rotary_dim, draft.spec, 12e6);
  }
  RopeSpec rope;
  rope.rotary_dim = static_cast<std::int32_t>(draft.rotary_dim);
  rope.theta = 12e6;
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = 8.0;
  rope.original_max_positions = 8192.0;
  draft.spec.ropes.push_back(std::move(rope));
  return {};
}

// GGUF has the layers' numbers as keys.
Status read_xielu(const JsonReader& config, std::vector<LayerSpec>& layers) {
  std::array<std::vector<double>, 4> numbers;
  constexpr std::array<std::string_view, 4> kKeys = {"xielu_alpha_p", "xielu_alpha_n", "xielu_beta",
                                                     "xielu_eps"};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto of_layers,
                           read_layer_numbers(config, kKeys[i], std::ssize(layers)));
    if (!of_layers && i == 0) return {};
    if (!of_layers) return config.type_error(kKeys[i], "a number for each layer");
    numbers[i] = *std::move(of_layers);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::get<PlainMlpSpec>(layers[i].feed_forward).xielu_numbers =
        Xielu{.alpha_p = static_cast<float>(numbers[0][i]),
              .alpha_n = static_cast<float>(numbers[1][i]),
              .beta = static_cast<float>(numbers[2][i]),
              .epsilon = static_cast<float>(numbers[3][i])};
  }
  return {};
}

constexpr GgufKey kApertusKeys[] = {{"xielu.alpha_p", "xielu_alpha_p"},
                                    {"xielu.alpha_n", "xielu_alpha_n"},
                                    {"xielu.beta", "xielu_beta"},
                                    {"xielu.eps", "xielu_eps"}};

}  // namespace

// How positions are scaled, a tensor says.
constexpr GgufForm kApertusGguf = {.architecture = "apertus",
                                   .keys = kApertusKeys,
                                   .settings = R"({"rope_parameters": {"rope_type": "default"}})"};

Result<DecoderSpec> apertus_from_config(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"sliding_window", "layer_types", "mlp_bias"}));
  QUIRE_ASSIGN_OR_RETURN(const auto activation, config.find_string("hidden_act"));
  if (activation.value_or("xielu") != "xielu") {
    return unsupported(config.where(), "hidden_act", *activation);
  }
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft,
                         read_common_config(config, {.activation_key = "", .gated_mlp = false}));
  DecoderSpec& spec = draft.spec;
  spec.names = {.own = kApertusNames, .shared = kLlamaTensorNames};
  QUIRE_RETURN_IF_ERROR(read_attention_bias(config, "attention_bias", false, draft.attention));
  draft.attention.query_key_norm = QueryKeyNorm::kHeads;
  PlainMlpSpec mlp = draft.plain_mlp(/*bias=*/false);
  mlp.xielu = true;
  QUIRE_RETURN_IF_ERROR(read_apertus_rope(config, draft));
  draft.make_layers({.mixer = draft.attention, .feed_forward = mlp});
  QUIRE_RETURN_IF_ERROR(read_xielu(config, spec.layers));
  return std::move(spec);
}

}  // namespace quire
