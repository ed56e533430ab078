// What the families with mixtures of experts read from config.json.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "models/families_test_support.h"

namespace quire {
namespace families_test {

const MoeSpec& moe(const DecoderSpec& spec, std::size_t layer = 0) {
  return std::get<MoeSpec>(spec.layers.at(layer).feed_forward);
}

// How many tensors there are of a role in the first layer.
std::int64_t count(const DecoderSpec& spec, TensorRole role) {
  std::int64_t tensors = 0;
  for (const TensorShape& tensor : spec.layer_tensors(0)) {
    if (tensor.role == role) tensors += tensor.num_experts;
  }
  return tensors;
}

TEST(Families, MixtralHasExpertsInEveryLayer) {
  const DecoderSpec spec = good("MixtralForCausalLM", R"({"num_local_experts": 6})");
  EXPECT_EQ(moe(spec, 3), (MoeSpec{.num_experts = 6,
                                   .experts_per_token = 2,
                                   .intermediate_size = 96,
                                   .routing = {.weights_sum_to_one = true}}));
  EXPECT_EQ(count(spec, TensorRole::kExpertGate), 6);
  EXPECT_EQ(spec.names.name(TensorRole::kExpertUp, 3, 5),
            "model.layers.3.block_sparse_moe.experts.5.w3.weight");
  EXPECT_EQ(spec.attention().window, 0);
  EXPECT_EQ(spec.ropes[0].theta, 1e6);
  EXPECT_EQ(good("MixtralForCausalLM", R"({"sliding_window": 9})").attention().window, 9);
  EXPECT_EQ(moe(good("MixtralForCausalLM")).num_experts, 8);
  EXPECT_EQ(
      spec.experts(),
      (ExpertSizes{
          .num_experts = 6, .experts_per_row = 2, .hidden_size = 64, .intermediate_size = 96}));
  EXPECT_EQ(spec.idle_weights(), 4U * (6 - 2) * 3 * 64 * 96);
}

TEST(Families, NumbersOfExpertsThatCannotBeAreRefused) {
  for (const std::string_view family :
       {"MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "OlmoeForCausalLM",
        "GraniteMoeForCausalLM"}) {
    const StatusCode bad = StatusCode::kBadModel;
    expect_refused(family, R"({"num_experts": 4, "num_experts_per_tok": 5})", bad, "5 of 4");
    expect_refused(family, R"({"num_experts": 100000})", bad, "100000");
    expect_refused(family, R"({"num_experts": 0})", bad, "number of experts is 0");
    expect_refused(family, R"({"num_experts_per_tok": 0})", bad, "for each token is 0");
    expect_refused(family, R"({"num_experts": "all"})", bad, "num_experts");
    expect_refused(family, R"({"mlp_bias": true})", StatusCode::kUnimplemented, "mlp_bias");
  }
  expect_refused("Qwen3MoeForCausalLM", R"({"moe_intermediate_size": -1})", StatusCode::kBadModel,
                 "of experts is -1");
  expect_refused("Qwen2MoeForCausalLM", R"({"shared_expert_intermediate_size": -4})",
                 StatusCode::kBadModel, "shared expert is -4");
}

TEST(Families, QwensMixturesMayHaveLayersWithoutOne) {
  const auto mixtures = [](std::string_view changes) {
    std::vector<bool> result;
    for (const LayerSpec& layer : good("Qwen3MoeForCausalLM", changes).layers) {
      result.push_back(layer.moe() != nullptr);
    }
    return result;
  };
  EXPECT_EQ(mixtures("{}"), std::vector<bool>({true, true, true, true}));
  EXPECT_EQ(mixtures(R"({"decoder_sparse_step": 2})"),
            std::vector<bool>({false, true, false, true}));
  EXPECT_EQ(mixtures(R"({"decoder_sparse_step": 2, "mlp_only_layers": [3]})"),
            std::vector<bool>({false, true, false, false}));
  const std::string_view name = "Qwen3MoeForCausalLM";
  const DecoderSpec spec = good(name, R"({"mlp_only_layers": [0], "norm_topk_prob": true})");
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.layers[0].feed_forward).intermediate_size, 96);
  EXPECT_EQ(moe(spec, 1), (MoeSpec{.num_experts = 128,
                                   .experts_per_token = 8,
                                   .intermediate_size = 768,
                                   .routing = {.weights_sum_to_one = true}}));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kHeads);
  EXPECT_EQ(spec.attention().head_dim, 16);
  EXPECT_EQ(spec.max_product_inputs(), 768);
  EXPECT_EQ(spec.experts().num_experts, 128);
  expect_refused(name, R"({"mlp_only_layers": [4]})", StatusCode::kBadModel, "there are 4 layers");
  expect_refused(name, R"({"mlp_only_layers": 1})", StatusCode::kBadModel, "a list");
  expect_refused(name, R"({"decoder_sparse_step": 0})", StatusCode::kBadModel, "sparse_step is 0");
  expect_refused(name, R"({"use_sliding_window": true})", StatusCode::kUnimplemented,
                 "use_sliding_window");
  expect_refused("Qwen2MoeForCausalLM", R"({"layer_types": ["full_attention", "full_attention",
      "sliding_attention", "full_attention"]})",
                 StatusCode::kUnimplemented, "layer_types");
}

TEST(Families, Qwen2MoeHasASharedExpert) {
  const DecoderSpec spec = good("Qwen2MoeForCausalLM");
  EXPECT_EQ(moe(spec), (MoeSpec{.num_experts = 60,
                                .experts_per_token = 4,
                                .intermediate_size = 1408,
                                .shared_intermediate_size = 5632,
                                .shared_gate = true}));
  EXPECT_TRUE(has(spec, TensorRole::kSharedExpertGate));
  EXPECT_TRUE(has(spec, TensorRole::kQueryBias));
  EXPECT_FALSE(has(spec, TensorRole::kAttentionBias));
  EXPECT_EQ(spec.max_product_inputs(), 5632);
  EXPECT_FALSE(has(good("Qwen2MoeForCausalLM", R"({"qkv_bias": false})"), TensorRole::kQueryBias));
  EXPECT_FALSE(has(good("Qwen2MoeForCausalLM", R"({"shared_expert_intermediate_size": 0})"),
                   TensorRole::kSharedGate));
}

TEST(Families, OlmoeNormsQueriesAndKeysOverAllHeads) {
  const DecoderSpec spec = good("OlmoeForCausalLM");
  EXPECT_EQ(moe(spec),
            (MoeSpec{.num_experts = 64, .experts_per_token = 8, .intermediate_size = 96}));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kWhole);
  EXPECT_EQ(spec.layers[0].norms, NormPlacement::kBefore);
  EXPECT_EQ(good("OlmoeForCausalLM", R"({"clip_qkv": 8.0})").attention().qkv_limit, 8.0);
}

TEST(Families, GraniteMoeHasItsExpertsInOneTensor) {
  const DecoderSpec spec = good("GraniteMoeForCausalLM", R"({"residual_multiplier": 0.22})");
  EXPECT_EQ(moe(spec).tensors, ExpertTensors::kStackedGateUp);
  EXPECT_TRUE(moe(spec).routing.weights_sum_to_one);
  EXPECT_EQ(count(spec, TensorRole::kExpertGateUps), 1);
  EXPECT_EQ(count(spec, TensorRole::kExpertGate), 0);
  EXPECT_DOUBLE_EQ(spec.layers[3].residual_scale, 0.22);
}

constexpr Routing kBiasedSigmoids = {.score = RouterScore::kSigmoid,
                                     .weights_sum_to_one = true,
                                     .min_weight_sum = 1e-20F,
                                     .group_rank = GroupRank::kSumOfTwoBest};

TEST(Families, Glm4MoeRoutesBySigmoidsWithABias) {
  const std::string_view name = "Glm4MoeForCausalLM";
  const DecoderSpec spec = good(name, R"({"first_k_dense_replace": 2, "attention_bias": true})");
  EXPECT_EQ(spec.layers[1].moe(), nullptr);
  EXPECT_EQ(moe(spec, 2), (MoeSpec{.num_experts = 128,
                                   .experts_per_token = 8,
                                   .intermediate_size = 1408,
                                   .routing = kBiasedSigmoids,
                                   .choice_bias = ChoiceBias::kVector,
                                   .shared_intermediate_size = 1408}));
  EXPECT_EQ(spec.names.name(TensorRole::kRouterBias, 2),
            "model.layers.2.mlp.gate.e_score_correction_bias");
  EXPECT_TRUE(has(spec, TensorRole::kQueryBias));
  EXPECT_FALSE(has(spec, TensorRole::kAttentionBias));
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(good(name, R"({"use_qk_norm": true})").attention().query_key_norm,
            QueryKeyNorm::kHeads);
  EXPECT_EQ(good(name).layers[0].moe(), nullptr);

  const MoeSpec grouped = moe(good(name, R"({"n_group": 4, "topk_group": 2, "norm_topk_prob": false,
      "routed_scaling_factor": 2.5, "n_shared_experts": 3, "n_routed_experts": 64,
      "moe_intermediate_size": 40, "num_experts_per_tok": 6})"),
                              1);
  Routing routing = kBiasedSigmoids;
  routing.num_groups = 4;
  routing.groups_per_row = 2;
  routing.weight_scale = 2.5F;
  routing.weights_sum_to_one = false;
  EXPECT_EQ(grouped, (MoeSpec{.num_experts = 64,
                              .experts_per_token = 6,
                              .intermediate_size = 40,
                              .routing = routing,
                              .choice_bias = ChoiceBias::kVector,
                              .shared_intermediate_size = 120}));
  const StatusCode bad = StatusCode::kBadModel;
  expect_refused(name, R"({"n_group": 3})", bad, "1 of 3 groups of 128");
  expect_refused(name, R"({"n_group": 64, "topk_group": 2})", bad, "8 experts for each token");
  expect_refused(name, R"({"n_group": 128, "topk_group": 8})", bad, "groups of two or more");
  expect_refused(name, R"({"n_group": 0})", bad, "n_group is 0");
  expect_refused(name, R"({"topk_group": 2})", bad, "2 of 1 groups");
  expect_refused(name, R"({"routed_scaling_factor": 0})", bad, "weights is 0");
  expect_refused(name, R"({"n_shared_experts": -1})", bad, "shared experts is -1");
  expect_refused(name, R"({"moe_intermediate_size": 9000000, "n_shared_experts": 9000000})", bad,
                 "shared expert");
  expect_refused(name, R"({"first_k_dense_replace": -1})", bad, "first_k_dense_replace is -1");
}

TEST(Families, LayersThatDraftTokensAreNotRead) {
  const DecoderSpec spec = good("Glm4MoeForCausalLM", R"({"num_nextn_predict_layers": 1})");
  EXPECT_TRUE(spec.is_unread("model.layers.4.mlp.gate.weight"));
  EXPECT_FALSE(spec.is_unread("model.layers.3.mlp.gate.weight"));
  EXPECT_FALSE(spec.is_unread("model.layers.40.mlp.gate.weight"));
  EXPECT_FALSE(good("Glm4MoeForCausalLM").is_unread("model.layers.4.mlp.gate.weight"));
  EXPECT_TRUE(good("Ernie4_5_MoeForCausalLM").is_unread("model.mtp_block.0.mlp.gate.weight"));
  expect_refused("Glm4MoeForCausalLM", R"({"num_nextn_predict_layers": -1})", StatusCode::kBadModel,
                 "num_nextn_predict_layers is -1");
}

TEST(Families, Ernie4_5MoeChoosesWithABiasAndWeighsBySoftmax) {
  const std::string_view name = "Ernie4_5_MoeForCausalLM";
  const DecoderSpec spec = good(name);
  EXPECT_EQ(moe(spec, 1),
            (MoeSpec{.num_experts = 64,
                     .experts_per_token = 6,
                     .intermediate_size = 1536,
                     .routing = {.weights_sum_to_one = true, .min_weight_sum = 1e-12F},
                     .choice_bias = ChoiceBias::kRow,
                     .shared_intermediate_size = 3072}));
  EXPECT_EQ(spec.rope_style, RopeStyle::kInterleaved);
  EXPECT_EQ(spec.ropes[0].theta, 500000.0);
  EXPECT_TRUE(spec.tie_word_embeddings);
  const auto mixtures = [&](std::string_view changes) {
    std::vector<bool> result;
    for (const LayerSpec& layer : good(name, changes).layers)
      result.push_back(layer.moe() != nullptr);
    return result;
  };
  EXPECT_EQ(mixtures("{}"), std::vector<bool>({false, true, true, true}));
  EXPECT_EQ(mixtures(R"({"moe_layer_start_index": 0, "moe_layer_end_index": 2})"),
            std::vector<bool>({true, true, true, false}));
  EXPECT_EQ(mixtures(R"({"moe_layer_start_index": 0, "moe_layer_interval": 2})"),
            std::vector<bool>({false, true, false, true}));
  const DecoderSpec other = good(name, R"({"moe_num_experts": 12, "moe_k": 5,
      "moe_intermediate_size": 40, "moe_num_shared_experts": 0, "moe_norm_min": 0.25})");
  EXPECT_EQ(moe(other, 1).num_experts, 12);
  EXPECT_EQ(moe(other, 1).experts_per_token, 5);
  EXPECT_EQ(moe(other, 1).shared_intermediate_size, 0);
  EXPECT_EQ(moe(other, 1).routing.min_weight_sum, 0.25F);
  expect_refused(name, R"({"use_bias": true})", StatusCode::kUnimplemented, "use_bias");
  expect_refused(name, R"({"moe_layer_interval": 0})", StatusCode::kBadModel, "interval is 0");
  expect_refused(name, R"({"moe_norm_min": -1})", StatusCode::kBadModel, "least sum");
}

TEST(Families, MiniMaxM2TurnsAPartOfEachHead) {
  const std::string_view name = "MiniMaxM2ForCausalLM";
  const DecoderSpec spec = good(name, R"({"head_dim": 32})");
  EXPECT_EQ(moe(spec),
            (MoeSpec{.num_experts = 256,
                     .experts_per_token = 8,
                     .intermediate_size = 96,
                     .routing = {.score = RouterScore::kSigmoid, .weights_sum_to_one = true},
                     .choice_bias = ChoiceBias::kVector}));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kWhole);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec.ropes[0].theta, 5e6);
  EXPECT_EQ(good(name, R"({"rotary_dim": null})").ropes[0].rotary_dim, 128);
  EXPECT_EQ(good(name, R"({"partial_rotary_factor": 0.5})").ropes[0].rotary_dim, 64);
  const StatusCode unimplemented = StatusCode::kUnimplemented;
  expect_refused(name, R"({"use_qk_norm": false})", unimplemented, "use_qk_norm");
  expect_refused(name, R"({"use_routing_bias": false})", unimplemented, "use_routing_bias");
  expect_refused(name, R"({"qk_norm_type": "per_head"})", unimplemented, "qk_norm_type");
  expect_refused(name, R"({"scoring_func": "softmax"})", unimplemented, "scoring_func");
  expect_refused(name, R"({"shared_intermediate_size": 4})", unimplemented, "shared_inter");
  expect_refused(name, R"({"attn_type_list": [1, 0, 1, 1]})", unimplemented, "attn_type_list");
  EXPECT_EQ(good(name, R"({"attn_type_list": [1, 1, 1, 1]})").num_layers(), 4);
  expect_refused(name, R"({"rotary_dim": 7})", StatusCode::kBadModel, "rotary_dim is 7");
}

TEST(Families, Dots1HasQwen3sAttention) {
  const std::string_view name = "Dots1ForCausalLM";
  const std::string_view sizes = R"({"n_routed_experts": 16, "num_experts_per_tok": 4,
      "n_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": true})";
  const DecoderSpec spec = good(name, sizes);
  EXPECT_EQ(spec.layers[0].moe(), nullptr);
  EXPECT_EQ(moe(spec, 1), (MoeSpec{.num_experts = 16,
                                   .experts_per_token = 4,
                                   .intermediate_size = 1408,
                                   .routing = kBiasedSigmoids,
                                   .choice_bias = ChoiceBias::kVector,
                                   .shared_intermediate_size = 2816}));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kHeads);
  EXPECT_EQ(spec.layers[3].attention().window, 0);
  const DecoderSpec windows = good(name, R"({"n_routed_experts": 16, "num_experts_per_tok": 4,
      "sliding_window": 9, "max_window_layers": 2})");
  EXPECT_EQ(windows.layers[1].attention().window, 0);
  EXPECT_EQ(windows.layers[2].attention().window, 9);
  expect_refused(name, "{}", StatusCode::kBadModel, "number of experts is 0");
}

}  // namespace families_test
}  // namespace quire
