// What the families with latent attention read from config.json.
#include <cmath>
#include <cstddef>

#include <gtest/gtest.h>

#include "models/families_test_support.h"
#include "models/kv_groups.h"

namespace quire {
namespace families_test {

const LatentAttentionSpec& latent(const DecoderSpec& spec) {
  return *spec.layers.front().latent_attention();
}

// The published sizes: DeepSeek-V3's but for the context.
TEST(Families, DeepseekV3HasLatentAttentionAndGroupsOfExperts) {
  const std::string_view name = "DeepseekV3ForCausalLM";
  const DecoderSpec spec = good(name);
  EXPECT_EQ(latent(spec), (LatentAttentionSpec{.num_heads = 4,
                                               .query_rank = 1536,
                                               .latent_dims = 512,
                                               .rope_dims = 64,
                                               .key_dims = 128,
                                               .value_dims = 128,
                                               .scale = 1 / std::sqrt(192.0)}));
  EXPECT_EQ(spec.layers[2].moe(), nullptr);
  const MoeSpec& moe = *spec.layers[3].moe();
  EXPECT_EQ(moe.num_experts, 256);
  EXPECT_EQ(moe.experts_per_token, 8);
  EXPECT_EQ(moe.intermediate_size, 2048);
  EXPECT_EQ(moe.shared_intermediate_size, 2048);
  EXPECT_EQ(moe.choice_bias, ChoiceBias::kVector);
  EXPECT_EQ(moe.routing, (Routing{.score = RouterScore::kSigmoid,
                                  .weights_sum_to_one = true,
                                  .min_weight_sum = 1e-20F,
                                  .weight_scale = 2.5F,
                                  .num_groups = 8,
                                  .groups_per_row = 4,
                                  .group_rank = GroupRank::kSumOfTwoBest}));
  EXPECT_EQ(spec.rope_style, RopeStyle::kInterleaved);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 64);
  EXPECT_EQ(good(name, R"({"rope_interleave": false})").rope_style, RopeStyle::kHalves);
  EXPECT_TRUE(good(name, R"({"num_nextn_predict_layers": 1})").is_unread("model.layers.4.x"));

  // One vector of a token in the cache.
  EXPECT_EQ(spec.layers[0].kv_heads(),
            (KvHeads{.num_heads = 4, .num_kv_heads = 1, .head_dim = 576, .latent_dims = 512}));
  EXPECT_EQ(spec.kv_elements_per_token(), 4 * 576);
  EXPECT_EQ(spec.head_products(), (HeadSizes{.num_heads = 4, .max_inputs = 512}));
  EXPECT_EQ(kv_paging(spec, 100).pages_per_block(), 1);

  const StatusCode unimplemented = StatusCode::kUnimplemented;
  expect_refused(name, R"({"topk_method": "greedy"})", unimplemented, "topk_method");
  expect_refused(name, R"({"scoring_func": "softmax"})", unimplemented, "scoring_func");
  expect_refused(name, R"({"moe_layer_freq": 2})", unimplemented, "moe_layer_freq");
  const StatusCode bad = StatusCode::kBadModel;
  expect_refused(name, R"({"kv_lora_rank": 12})", bad, "kv_lora_rank is 12");
  expect_refused(name, R"({"qk_rope_head_dim": 7})", bad, "qk_rope_head_dim 7");
  expect_refused(name, R"({"kv_lora_rank": 4096})", bad, "sizes up to 1024");
  expect_refused(name, R"({"q_lora_rank": 0})", bad, "q_lora_rank is 0");
  expect_refused(name, R"({"v_head_dim": -8})", bad, "v_head_dim is -8");
}

TEST(Families, YarnScalesTheScoresOfLatentAttention) {
  const DecoderSpec spec = good("DeepseekV3ForCausalLM", R"({"rope_scaling": {"type": "yarn",
      "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
      "original_max_position_embeddings": 4096}})");
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(latent(spec).scale, mscale * mscale / std::sqrt(192.0));
  EXPECT_DOUBLE_EQ(spec.ropes[0].attention_factor, 1.0);
}

TEST(Families, DeepseekV2ChoosesGroupsByTheirBestExpert) {
  const std::string_view name = "DeepseekV2ForCausalLM";
  const std::string_view lite = R"({"q_lora_rank": null, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
      "scoring_func": "softmax", "norm_topk_prob": false, "moe_intermediate_size": 1408})";
  const DecoderSpec spec = good(name, lite);
  EXPECT_EQ(latent(spec).query_rank, 0);
  EXPECT_TRUE(has(spec, TensorRole::kQuery));
  EXPECT_FALSE(has(spec, TensorRole::kQueryDown));
  EXPECT_EQ(spec.layers[0].moe(), nullptr);
  const MoeSpec& moe = *spec.layers[1].moe();
  EXPECT_EQ(moe.num_experts, 64);
  EXPECT_EQ(moe.shared_intermediate_size, 2816);
  EXPECT_EQ(moe.routing, Routing());
  EXPECT_EQ(moe.choice_bias, ChoiceBias::kNone);

  const std::string_view grouped = R"({"num_experts_per_tok": 6, "n_routed_experts": 160,
      "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3,
      "routed_scaling_factor": 16.0})";
  const DecoderSpec large = good(name, grouped);
  EXPECT_EQ(latent(large).query_rank, 1536);
  EXPECT_EQ(large.layers[0].moe()->routing,
            (Routing{.weight_scale = 16.0F, .num_groups = 8, .groups_per_row = 3}));
  // Without that method there are no groups, whatever the keys say.
  EXPECT_EQ(good(name, R"({"num_experts_per_tok": 6, "n_group": 8, "topk_group": 3})")
                .layers[0]
                .moe()
                ->routing.num_groups,
            1);
  const StatusCode unimplemented = StatusCode::kUnimplemented;
  expect_refused(name, R"({"norm_topk_prob": true})", unimplemented, "norm_topk_prob");
  expect_refused(name, R"({"topk_method": "noaux_tc"})", unimplemented, "topk_method");
  expect_refused(name, R"({"mlp_bias": true})", unimplemented, "mlp_bias");
}

TEST(Families, Glm4MoeLiteSaysWhichLayersHaveAMixture) {
  const std::string_view name = "Glm4MoeLiteForCausalLM";
  const DecoderSpec spec = good(name, R"({"attention_bias": true})");
  EXPECT_EQ(latent(spec).query_rank, 768);
  EXPECT_EQ(latent(spec).key_dims, 192);
  EXPECT_EQ(latent(spec).value_dims, 256);
  EXPECT_EQ(latent(spec).norm_epsilon, 1e-6);
  EXPECT_TRUE(has(spec, TensorRole::kLatentBias));
  EXPECT_TRUE(has(spec, TensorRole::kAttentionBias));
  EXPECT_EQ(spec.layers[0].moe(), nullptr);
  EXPECT_NE(spec.layers[1].moe(), nullptr);
  const DecoderSpec other =
      good(name, R"({"mlp_layer_types": ["sparse", "dense", "sparse", "dense"]})");
  EXPECT_NE(other.layers[0].moe(), nullptr);
  EXPECT_EQ(other.layers[3].moe(), nullptr);
  expect_refused(name, R"({"mlp_layer_types": ["sparse"]})", StatusCode::kBadModel,
                 "mlp_layer_types");
  expect_refused(name, R"({"mlp_layer_types": ["sparse", "dense", "sparse", "other"]})",
                 StatusCode::kUnimplemented, "other");
}

}  // namespace families_test
}  // namespace quire
