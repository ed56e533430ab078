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
                                   .weights_sum_to_one = true}));
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
                                   .weights_sum_to_one = true}));
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
                                .shared_intermediate_size = 5632}));
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
  expect_refused("OlmoeForCausalLM", R"({"clip_qkv": 8.0})", StatusCode::kUnimplemented,
                 "clip_qkv");
}

TEST(Families, GraniteMoeHasItsExpertsInOneTensor) {
  const DecoderSpec spec = good("GraniteMoeForCausalLM", R"({"residual_multiplier": 0.22})");
  EXPECT_EQ(moe(spec).tensors, ExpertTensors::kStackedGateUp);
  EXPECT_TRUE(moe(spec).weights_sum_to_one);
  EXPECT_EQ(count(spec, TensorRole::kExpertGateUps), 1);
  EXPECT_EQ(count(spec, TensorRole::kExpertGate), 0);
  EXPECT_DOUBLE_EQ(spec.layers[3].residual_scale, 0.22);
}

}  // namespace families_test
}  // namespace quire
