#include "models/deepseek.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "models/config_keys.h"
#include "models/deepseek_config.h"
#include "models/rope_config.h"

namespace quire {
namespace {

// What configurations may leave out.
struct LatentDefaults {
  std::int64_t query_rank = 0;
  std::int64_t key_dims = 128;
  std::int64_t value_dims = 128;
};

Result<std::int64_t> read_size(const JsonReader& config, std::string_view key,
                               std::int64_t if_absent) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_int(key));
  return value.value_or(if_absent);
}

// kUnimplemented for another value of `key` than `only`.
Status expect_only(const JsonReader& config, std::string_view key, std::string_view only) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_string(key));
  return value.value_or(std::string(only)) == only ? Status()
                                                   : unsupported(config.where(), key, *value);
}

Result<DecoderDraft> read_deepseek(const JsonReader& config) {
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"mlp_bias", "sliding_window", "layer_types"}));
  QUIRE_ASSIGN_OR_RETURN(const auto every, config.find_int("moe_layer_freq"));
  if (every.value_or(1) != 1) {
    return unsupported(config.where(), "moe_layer_freq", fmt::format("{}", *every));
  }
  // Heads have other sizes than this; read_latent_attention() reads them.
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_common_config(config, {.head_dim = 64}));
  draft.spec.names = {.own = kDeepseekTensorNames, .shared = kLlamaTensorNames};
  return draft;
}

// With the positions of `draft.spec`. A scaling of these changes the scale of scores, too: by the
// square of YaRN's factor for `mscale_all_dim`.
Result<LatentAttentionSpec> read_latent_attention(const JsonReader& config,
                                                  const LatentDefaults& defaults,
                                                  DecoderDraft& draft) {
  LatentAttentionSpec latent = {.num_heads = draft.attention.num_heads};
  // Null where queries are made of the input itself.
  if (config.contains("q_lora_rank") || !config.object().contains("q_lora_rank")) {
    QUIRE_ASSIGN_OR_RETURN(latent.query_rank,
                           read_size(config, "q_lora_rank", defaults.query_rank));
    if (latent.query_rank == 0) {
      return Status::bad_model(
          fmt::format("{}: q_lora_rank is 0; expected 1 or more, or null", config.where()));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(latent.latent_dims, read_size(config, "kv_lora_rank", 512));
  QUIRE_ASSIGN_OR_RETURN(latent.rope_dims, read_size(config, "qk_rope_head_dim", 64));
  QUIRE_ASSIGN_OR_RETURN(latent.key_dims, read_size(config, "qk_nope_head_dim", defaults.key_dims));
  QUIRE_ASSIGN_OR_RETURN(latent.value_dims, read_size(config, "v_head_dim", defaults.value_dims));
  QUIRE_ASSIGN_OR_RETURN(latent.bias, read_flag(config, "attention_bias", false));
  latent.scale = 1.0;
  QUIRE_RETURN_IF_ERROR(latent.validate(config.where()));
  QUIRE_RETURN_IF_ERROR(read_rope(config, latent.rope_dims, draft.spec));
  latent.scale /= std::sqrt(static_cast<double>(latent.key_dims + latent.rope_dims));
  const RopeSpec& rope = draft.spec.ropes[0];
  if (rope.scaling == RopeScaling::kNone) return latent;
  QUIRE_ASSIGN_OR_RETURN(const JsonReader object, rope_object(config));
  QUIRE_ASSIGN_OR_RETURN(const auto mscale, object.find_double("mscale_all_dim"));
  if (mscale.value_or(0.0) != 0.0) {
    const double factor = yarn_mscale(rope.factor, *mscale);
    latent.scale *= factor * factor;
  }
  return latent;
}

// `mlp_layer_types`: "dense" for layers without a mixture.
Status read_mlp_types(const JsonReader& config, const MoeSpec& moe, DecoderDraft& draft) {
  constexpr std::string_view kKey = "mlp_layer_types";
  const json::value* const types = config.find(kKey);
  if (types == nullptr) return {};
  std::vector<LayerSpec>& layers = draft.spec.layers;
  if (!types->is_array() || types->get_array().size() != layers.size()) {
    return config.type_error(kKey, "a list of a name for each layer");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const json::value& type = types->get_array()[i];
    if (!type.is_string()) return config.type_error(kKey, "a list of names");
    if (type.get_string() == "dense") {
      layers[i].feed_forward = draft.mlp;
    } else if (type.get_string() == "sparse") {
      layers[i].feed_forward = moe;
    } else {
      return unsupported(config.where(), kKey, std::string_view(type.get_string()));
    }
  }
  return {};
}

// DeepSeek-V3's, and of those after it: `rope_interleave`, sigmoids with a bias.
Result<DecoderSpec> read_v3(const JsonReader& config, const LatentDefaults& latent_defaults,
                            const DeepseekMoeDefaults& moe_defaults, std::int64_t first_mixture) {
  QUIRE_RETURN_IF_ERROR(expect_only(config, "topk_method", "noaux_tc"));
  QUIRE_RETURN_IF_ERROR(expect_only(config, "scoring_func", "sigmoid"));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_deepseek(config));
  QUIRE_ASSIGN_OR_RETURN(const LatentAttentionSpec latent,
                         read_latent_attention(config, latent_defaults, draft));
  QUIRE_ASSIGN_OR_RETURN(const bool interleaved, read_flag(config, "rope_interleave", true));
  draft.spec.rope_style = interleaved ? RopeStyle::kInterleaved : RopeStyle::kHalves;
  QUIRE_ASSIGN_OR_RETURN(MoeSpec moe, read_deepseek_moe(config, moe_defaults, draft));
  use_biased_sigmoids(moe);
  QUIRE_RETURN_IF_ERROR(leave_out_draft_layers(config, draft));
  QUIRE_RETURN_IF_ERROR(
      make_deepseek_layers(config, first_mixture, {.mixer = latent, .feed_forward = moe}, draft));
  QUIRE_RETURN_IF_ERROR(read_mlp_types(config, moe, draft));
  return std::move(draft.spec);
}

// DeepSeek-V3's mixtures choose with a bias, which only its files have; those of GLM-4.7-Flash say
// nothing of the function of scores.
constexpr GgufCondition kBiasedChoices = {.tensor = ".exp_probs_b.bias"};

}  // namespace

constexpr GgufForm kDeepseekV2Gguf = {.architecture = "deepseek2",
                                      // Of one group, which is the same as of none.
                                      .settings = R"({"topk_method": "group_limited_greedy"})",
                                      .mixture = true,
                                      .latent = true};

constexpr GgufForm kDeepseekV3Gguf = {
    .architecture = "deepseek2", .when = kBiasedChoices, .mixture = true, .latent = true};

Result<DecoderSpec> deepseek_v2_from_config(const JsonReader& config) {
  // What the mixture makes of it differs between its two reference implementations.
  QUIRE_RETURN_IF_ERROR(refuse_keys(config, {"norm_topk_prob"}));
  QUIRE_RETURN_IF_ERROR(expect_only(config, "scoring_func", "softmax"));
  QUIRE_ASSIGN_OR_RETURN(const auto method, config.find_string("topk_method"));
  const bool grouped = method.value_or("greedy") == "group_limited_greedy";
  if (!grouped) QUIRE_RETURN_IF_ERROR(expect_only(config, "topk_method", "greedy"));
  QUIRE_ASSIGN_OR_RETURN(DecoderDraft draft, read_deepseek(config));
  QUIRE_ASSIGN_OR_RETURN(const LatentAttentionSpec latent,
                         read_latent_attention(config, {.query_rank = 1536}, draft));
  draft.spec.rope_style = RopeStyle::kInterleaved;
  QUIRE_ASSIGN_OR_RETURN(
      MoeSpec moe,
      read_deepseek_moe(config, {.intermediate_size = 1407, .num_experts = 64, .shared_experts = 2},
                        draft));
  if (!grouped) {
    moe.routing.num_groups = 1;
    moe.routing.groups_per_row = 1;
  }
  QUIRE_RETURN_IF_ERROR(
      make_deepseek_layers(config, 0, {.mixer = latent, .feed_forward = moe}, draft));
  return std::move(draft.spec);
}

Result<DecoderSpec> deepseek_v3_from_config(const JsonReader& config) {
  return read_v3(config, {.query_rank = 1536},
                 {.intermediate_size = 2048,
                  .num_experts = 256,
                  .experts_per_token = 8,
                  .shared_experts = 1,
                  .num_groups = 8,
                  .groups_per_token = 4,
                  .weight_scale = 2.5,
                  .weights_sum_to_one = true},
                 3);
}

Result<DecoderSpec> glm4_moe_lite_from_config(const JsonReader& config) {
  return read_v3(config, {.query_rank = 768, .key_dims = 192, .value_dims = 256},
                 {.intermediate_size = 1536,
                  .num_experts = 64,
                  .experts_per_token = 4,
                  .shared_experts = 1,
                  .weight_scale = 1.8,
                  .weights_sum_to_one = true},
                 1);
}

}  // namespace quire
