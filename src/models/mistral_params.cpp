#include "models/mistral_params.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "models/config_keys.h"
#include "models/mistral.h"
#include "models/mixtral.h"

namespace quire {
namespace {

constexpr TensorName kMistralTensorNames[] = {
    {TensorRole::kEmbedding, "tok_embeddings.weight"},
    {TensorRole::kFinalNorm, "norm.weight"},
    {TensorRole::kOutput, "output.weight"},
    {TensorRole::kInputNorm, "layers.{layer}.attention_norm.weight"},
    {TensorRole::kQuery, "layers.{layer}.attention.wq.weight"},
    {TensorRole::kKey, "layers.{layer}.attention.wk.weight"},
    {TensorRole::kValue, "layers.{layer}.attention.wv.weight"},
    {TensorRole::kAttentionOutput, "layers.{layer}.attention.wo.weight"},
    {TensorRole::kMlpNorm, "layers.{layer}.ffn_norm.weight"},
    {TensorRole::kGate, "layers.{layer}.feed_forward.w1.weight"},
    {TensorRole::kDown, "layers.{layer}.feed_forward.w2.weight"},
    {TensorRole::kUp, "layers.{layer}.feed_forward.w3.weight"},
    {TensorRole::kRouter, "layers.{layer}.feed_forward.gate.weight"},
    {TensorRole::kExpertGate, "layers.{layer}.feed_forward.experts.{expert}.w1.weight"},
    {TensorRole::kExpertDown, "layers.{layer}.feed_forward.experts.{expert}.w2.weight"},
    {TensorRole::kExpertUp, "layers.{layer}.feed_forward.experts.{expert}.w3.weight"},
};

struct ParamsKey {
  std::string_view params;
  std::string_view config;
};

constexpr ParamsKey kNeeded[] = {
    {"dim", "hidden_size"},
    {"n_layers", "num_hidden_layers"},
    {"head_dim", "head_dim"},
    {"hidden_dim", "intermediate_size"},
    {"n_heads", "num_attention_heads"},
    {"n_kv_heads", "num_key_value_heads"},
    {"vocab_size", "vocab_size"},
};
constexpr ParamsKey kOptional[] = {
    {"max_seq_len", "max_position_embeddings"},
    {"max_position_embeddings", "max_position_embeddings"},
    {"rope_theta", "rope_theta"},
    {"sliding_window", "sliding_window"},
    {"tied_embeddings", "tie_word_embeddings"},
};
constexpr ParamsKey kMixture[] = {
    {"num_experts", "num_local_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
};
// Besides those: read here, or of no consequence for what is computed.
constexpr std::string_view kOthers[] = {"norm_eps",   "moe",        "causal",
                                        "use_biases", "model_type", "max_batch_size"};

// What the readers of such files assume where they do not say it.
constexpr std::int64_t kDefaultPositions = 128'000;
constexpr double kDefaultTheta = 10'000;

bool is_one_of(std::string_view key, std::span<const ParamsKey> keys) {
  return std::ranges::find(keys, key, &ParamsKey::params) != keys.end();
}

Status refuse_unknown(const JsonReader& params) {
  for (const auto& [key, value] : params.object()) {
    if (value.is_null() || is_one_of(key, kNeeded) || is_one_of(key, kOptional) ||
        std::ranges::find(kOthers, std::string_view(key)) != std::end(kOthers)) {
      continue;
    }
    return Status::unimplemented(
        fmt::format("{}: {} is not supported", params.where(), printable(key)),
        "use the model's checkpoint in Hugging Face layout");
  }
  return {};
}

// `key` is absent, or as all that is read here has it.
Status expect_flag(const JsonReader& params, std::string_view key, bool expected) {
  QUIRE_ASSIGN_OR_RETURN(const auto flag, params.find_bool(key));
  if (flag.value_or(expected) == expected) return {};
  return Status::unimplemented(
      fmt::format("{}: {} = {} is not supported", params.where(), key, *flag),
      fmt::format("use a checkpoint with {} = {}", key, expected));
}

Status take_integers(const JsonReader& params, std::span<const ParamsKey> keys,
                     json::object& config) {
  for (const ParamsKey& key : keys) {
    QUIRE_ASSIGN_OR_RETURN(config[key.config], params.get_int(key.params));
  }
  return {};
}

// The file as config.json would say it.
Result<json::object> as_config(const JsonReader& params) {
  json::object config = {{"max_position_embeddings", kDefaultPositions},
                         {"rope_theta", kDefaultTheta},
                         {"sliding_window", nullptr}};
  QUIRE_RETURN_IF_ERROR(take_integers(params, kNeeded, config));
  QUIRE_ASSIGN_OR_RETURN(config["rms_norm_eps"], params.get_double("norm_eps"));
  for (const ParamsKey& key : kOptional) {
    if (const json::value* value = params.find(key.params)) config[key.config] = *value;
  }
  if (!params.contains("moe")) return config;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader mixture, params.get_object("moe"));
  for (const auto& [key, value] : mixture.object()) {
    if (is_one_of(key, kMixture)) continue;
    return Status::unimplemented(
        fmt::format("{}: {} is not supported", mixture.where(), printable(key)),
        "use the model's checkpoint in Hugging Face layout");
  }
  QUIRE_RETURN_IF_ERROR(take_integers(mixture, kMixture, config));
  return config;
}

}  // namespace

Result<DecoderSpec> mistral_from_params(const JsonReader& params) {
  QUIRE_RETURN_IF_ERROR(refuse_unknown(params));
  QUIRE_RETURN_IF_ERROR(expect_flag(params, "causal", true));
  QUIRE_RETURN_IF_ERROR(expect_flag(params, "use_biases", false));
  QUIRE_ASSIGN_OR_RETURN(const json::object config, as_config(params));
  const JsonReader reader(config, params.where());
  QUIRE_ASSIGN_OR_RETURN(DecoderSpec spec, params.contains("moe") ? mixtral_from_config(reader)
                                                                  : mistral_from_config(reader));
  spec.names = {.own = kMistralTensorNames};
  spec.rope_style = RopeStyle::kInterleaved;
  return spec;
}

}  // namespace quire
