// What the families some of whose layers keep a state read from config.json.
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "models/families_test_support.h"

namespace quire {
namespace families_test {

std::vector<bool> states_of(const DecoderSpec& spec) {
  std::vector<bool> states;
  for (const LayerSpec& layer : spec.layers) states.push_back(layer.keeps_state());
  return states;
}

TEST(Families, Lfm2MixesByShortConvolutionsAndByAttention) {
  const std::string_view name = "Lfm2ForCausalLM";
  const DecoderSpec spec = good(name, R"({"full_attn_idxs": [2]})");
  EXPECT_EQ(states_of(spec), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(spec.layers[0].short_conv()->taps, 3);
  EXPECT_FALSE(spec.layers[0].short_conv()->bias);
  EXPECT_EQ(spec.state_bytes(0), 2U * 64 * sizeof(float));
  EXPECT_EQ(spec.state_bytes(2), 0U);
  EXPECT_EQ(spec.kv_heads(), spec.layers[2].kv_heads());
  EXPECT_EQ(spec.layers[2].attention().query_key_norm, QueryKeyNorm::kHeads);
  EXPECT_EQ(spec.kv_elements_per_token(), 2 * 2 * 16);
  EXPECT_DOUBLE_EQ(spec.norm.epsilon, 1e-2);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 1e6);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_FALSE(good(name, R"({"tie_embedding": false})").tie_word_embeddings);
  EXPECT_EQ(states_of(good(name, R"({"layer_types": ["full_attention", "conv", "conv", "conv"],
                                     "full_attn_idxs": [2]})")),
            (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(states_of(good(name)), std::vector<bool>(4, false));
  const DecoderSpec other =
      good(name, R"({"full_attn_idxs": [3], "conv_L_cache": 5, "conv_bias": true})");
  EXPECT_EQ(other.layers[1].short_conv()->taps, 5);
  EXPECT_TRUE(has(other, TensorRole::kShortConvBias));
  for (const DecoderSpec& each : {spec, other}) {
    for (const std::int64_t layer : {0, 3}) {
      for (const TensorShape& tensor : each.layer_tensors(layer)) {
        EXPECT_NE(each.names.name(tensor.role, layer), "") << static_cast<int>(tensor.role);
      }
    }
  }
}

TEST(Families, Lfm2AdjustsTheSizeOfItsMlps) {
  const std::string_view name = "Lfm2ForCausalLM";
  EXPECT_EQ(good(name).layers[0].intermediate_size(), 256) << "64, in blocks of 256";
  const auto size = [&](std::string_view changes) {
    return good(name, changes).layers[0].intermediate_size();
  };
  // LFM2-1.2B.
  EXPECT_EQ(size(R"({"block_ff_dim": 12288, "block_multiple_of": 256,
                     "block_ffn_dim_multiplier": 1.0})"),
            8192);
  EXPECT_EQ(size(R"({"block_multiple_of": 10, "block_ffn_dim_multiplier": 1.2})"), 80);
  EXPECT_EQ(size(R"({"block_ffn_dim_multiplier": null})"), 64);
  EXPECT_EQ(size(R"({"block_auto_adjust_ff_dim": false})"), 96);
}

TEST(Families, Lfm2MoeHasExpertsBehindItsFirstLayers) {
  const std::string_view name = "Lfm2MoeForCausalLM";
  const DecoderSpec spec =
      good(name, R"({"layer_types": ["conv", "full_attention", "conv", "full_attention"],
                     "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
                     "routed_scaling_factor": 1.5})");
  EXPECT_EQ(states_of(spec), (std::vector<bool>{true, false, true, false}));
  for (const std::int64_t layer : {0, 1}) {
    EXPECT_EQ(spec.layers[static_cast<std::size_t>(layer)].intermediate_size(), 96);
  }
  for (const std::size_t layer : {2U, 3U}) {
    const MoeSpec* const moe = spec.layers[layer].moe();
    ASSERT_NE(moe, nullptr);
    EXPECT_EQ(moe->num_experts, 8);
    EXPECT_EQ(moe->experts_per_token, 2);
    EXPECT_EQ(moe->intermediate_size, 48);
    EXPECT_EQ(moe->routing.score, RouterScore::kSigmoid);
    EXPECT_TRUE(moe->routing.weights_sum_to_one);
    EXPECT_EQ(moe->routing.weight_scale, 1.5F);
    EXPECT_EQ(moe->choice_bias, ChoiceBias::kVector);
    for (const TensorShape& tensor : spec.layer_tensors(static_cast<std::int64_t>(layer))) {
      EXPECT_NE(spec.names.name(tensor.role, static_cast<std::int64_t>(layer)), "")
          << static_cast<int>(tensor.role);
    }
  }
  const DecoderSpec usual = good(name, R"({"full_attn_idxs": [3], "num_dense_layers": 3})");
  EXPECT_EQ(usual.layers[2].moe(), nullptr);
  ASSERT_NE(usual.layers[3].moe(), nullptr);
  EXPECT_EQ(usual.layers[3].moe()->num_experts, 32);
  EXPECT_EQ(good(name, R"({"full_attn_idxs": [3], "use_expert_bias": false})")
                .layers[3]
                .moe()
                ->choice_bias,
            ChoiceBias::kNone);
}

TEST(Families, Lfm2RefusesWhatItDoesNotKnow) {
  const std::string_view name = "Lfm2ForCausalLM";
  const StatusCode bad = StatusCode::kBadModel;
  expect_refused(name, R"({"layer_types": ["conv", "conv", "conv", "mamba"]})",
                 StatusCode::kUnimplemented, "mamba");
  expect_refused(name, R"({"layer_types": ["conv", "conv", "conv", "conv"]})",
                 StatusCode::kUnimplemented, "attention");
  expect_refused(name, R"({"layer_types": ["conv"]})", bad, "layer_types");
  expect_refused(name, R"({"full_attn_idxs": [4]})", bad, "full_attn_idxs");
  expect_refused(name, R"({"full_attn_idxs": [1], "conv_L_cache": 1})", bad, "conv_L_cache");
  expect_refused(name, R"({"full_attn_idxs": [1], "conv_L_cache": 17})", bad, "conv_L_cache");
  expect_refused(name, R"({"block_multiple_of": 0})", bad, "block_multiple_of");
  expect_refused(name, R"({"block_ffn_dim_multiplier": -1.0})", bad, "block_ffn_dim_multiplier");
}

}  // namespace families_test
}  // namespace quire
