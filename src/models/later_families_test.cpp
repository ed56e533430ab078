// What the configurations of families of 2025 turn into, what of them is refused, and what is said
// of architectures that no family reads.
#include <string>

#include <gtest/gtest.h>

#include "models/families_test_support.h"
#include "models/refused_architectures.h"

namespace quire::families_test {
namespace {

constexpr std::string_view kYarn = R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6,
    "factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64)";

TEST(LaterFamilies, ApertusHasAnActivationWithNumbersOfItsOwn) {
  const std::string_view name = "ApertusForCausalLM";
  const DecoderSpec spec = good(name, R"({"hidden_act": "xielu"})");
  EXPECT_TRUE(has(spec, TensorRole::kXieluAlphaN));
  EXPECT_FALSE(has(spec, TensorRole::kGate));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kHeads);
  EXPECT_EQ(spec.names.name(TensorRole::kMlpNorm, 1),
            "model.layers.1.feedforward_layernorm.weight");
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kLlama3);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 12e6);
  const DecoderSpec plain = good(name, R"({"rope_parameters": {"rope_theta": 50.0}})");
  EXPECT_EQ(plain.ropes[0].scaling, RopeScaling::kNone);
  expect_refused(name, R"({"hidden_act": "silu"})", StatusCode::kUnimplemented, "hidden_act");
  expect_refused(name, R"({"sliding_window": 8})", StatusCode::kUnimplemented, "sliding_window");
}

TEST(LaterFamilies, Ministral3ScalesQueriesByPosition) {
  const std::string_view name = "Ministral3ForCausalLM";
  const DecoderSpec spec =
      good(name, "{" + std::string(kYarn) + R"(, "llama_4_scaling_beta": 0.1}})");
  const PositionScale expected = {.growth = 0.1F, .interval = 64.0F, .offset = 0};
  EXPECT_EQ(spec.layers[3].attention().query_scale, expected);
  EXPECT_EQ(spec.attention().window, 0);
  EXPECT_EQ(spec.attention().head_dim, 128);
  EXPECT_DOUBLE_EQ(spec.ropes[0].attention_factor, 1.0);
  EXPECT_EQ(spec.max_position_embeddings, 1024);
  EXPECT_FALSE(good(name, "{" + std::string(kYarn) + "}}").attention().query_scale);
  expect_refused(name, "{}", StatusCode::kBadModel, "rope_parameters");
  expect_refused(name, "{" + std::string(kYarn) + R"(, "llama_4_scaling_beta": 100.0}})",
                 StatusCode::kBadModel, "queries that grow by 100");
  expect_refused("MistralForCausalLM",
                 "{" + std::string(kYarn) + R"(, "llama_4_scaling_beta": 0.1}})",
                 StatusCode::kUnimplemented, "llama_4_scaling_beta");
}

TEST(LaterFamilies, Phi3ChoosesItsFactorsByTheLengthOfTheModel) {
  const std::string_view name = "Phi3ForCausalLM";
  const DecoderSpec spec = good(name, R"({"head_dim": 4, "original_max_position_embeddings": 128,
      "rope_scaling": {"type": "su", "short_factor": [1, 2], "long_factor": [3.5, 4]}})");
  const RopeSpec& rope = spec.ropes[0];
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_DOUBLE_EQ(rope.original_max_positions, 128);
  EXPECT_NEAR(rope.attention_factor, 1.13389, 1e-5);  // sqrt(1 + ln 4 / ln 128)
  EXPECT_EQ(spec.max_position_embeddings, 512);
  EXPECT_FLOAT_EQ(rotary_frequencies(rope, 128)[0], 1.0F);
  EXPECT_FLOAT_EQ(rotary_frequencies(rope, 129)[0], 1.0F / 3.5F);
  EXPECT_FLOAT_EQ(rotary_frequencies(rope, 128)[1], 0.005F);
  expect_refused(name, R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 2],
      "long_factor": [3, 4]}})",
                 StatusCode::kBadModel, "expected 8 factors");
  expect_refused(name, R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 2]}})",
                 StatusCode::kBadModel, "long_factor");
  expect_refused(name, R"({"head_dim": 4, "rope_scaling": {"type": "longrope",
      "short_factor": [1, 0], "long_factor": [3, 4]}})",
                 StatusCode::kBadModel, "factors above 0");
}

TEST(LaterFamilies, GptOssHasSinksAndExpertsWithBiases) {
  const std::string_view name = "GptOssForCausalLM";
  const DecoderSpec spec = good(
      name, "{" + std::string(kYarn) + R"(}, "num_local_experts": 8, "num_experts_per_tok": 2})");
  EXPECT_EQ(spec.layers[0].attention().window, 128);
  EXPECT_EQ(spec.layers[1].attention().window, 0);
  EXPECT_EQ(spec.layers[2].attention().window, 128);
  EXPECT_TRUE(has(spec, TensorRole::kAttentionSinks));
  EXPECT_TRUE(has(spec, TensorRole::kAttentionBias));
  EXPECT_TRUE(has(spec, TensorRole::kRouterLogitBias));
  EXPECT_TRUE(has(spec, TensorRole::kExpertDownBiases));
  const MoeSpec& moe = *spec.layers[0].moe();
  EXPECT_EQ(moe.clamped, (ClampedGate{.alpha = 1.702F, .limit = 7.0F}));
  EXPECT_EQ(moe.tensors, ExpertTensors::kTurnedPairs);
  EXPECT_TRUE(moe.routing.weights_sum_to_one);
  const DecoderSpec published = good(
      name, "{" + std::string(kYarn) + R"(}, "quantization_config": {"quant_method": "mxfp4"}})");
  EXPECT_EQ(published.layers[0].moe()->tensors, ExpertTensors::kStackedPairs);
  expect_refused(name, "{}", StatusCode::kBadModel, "rope_parameters");
  expect_refused(name, "{" + std::string(kYarn) + R"(}, "hidden_act": "gelu_pytorch_tanh"})",
                 StatusCode::kUnimplemented, "hidden_act");
  expect_refused(name, "{" + std::string(kYarn) + R"(}, "swiglu_limit": -1.0})",
                 StatusCode::kBadModel, "clamped to -1");
}

TEST(LaterFamilies, Llama4HasChunksLayersWithoutPositionsAndMixtures) {
  const std::string_view name = "Llama4ForCausalLM";
  const DecoderSpec spec = good(name, R"({"attention_chunk_size": 32, "floor_scale": 64,
      "interleave_moe_layer_step": 2, "intermediate_size_mlp": 80, "num_local_experts": 4})");
  EXPECT_EQ(spec.rope_style, RopeStyle::kInterleaved);
  const AttentionSpec& rotated = spec.layers[0].attention();
  EXPECT_EQ(rotated.chunk, 32);
  EXPECT_EQ(rotated.query_key_norm, QueryKeyNorm::kRotatedHeads);
  EXPECT_FALSE(has(spec, TensorRole::kQueryNorm));
  EXPECT_FALSE(rotated.query_scale);
  const AttentionSpec& still = spec.layers[3].attention();
  EXPECT_EQ(still.rope, kNoRope);
  EXPECT_EQ(still.chunk, 0);
  EXPECT_EQ(still.query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(still.query_scale, (PositionScale{.growth = 0.1F, .interval = 64.0F, .offset = 1}));
  EXPECT_EQ(spec.layers[0].intermediate_size(), 80);
  const MoeSpec& moe = *spec.layers[1].moe();
  EXPECT_EQ(moe.intermediate_size, 96);
  EXPECT_EQ(moe.shared_intermediate_size, 96);
  EXPECT_TRUE(moe.weigh_inputs);
  EXPECT_EQ(moe.experts_per_token, 1);
  EXPECT_EQ(moe.routing.score, RouterScore::kSigmoid);
}

TEST(LaterFamilies, Llama4ReadsListsOfLayers) {
  const std::string_view name = "Llama4ForCausalLM";
  const DecoderSpec spec = good(name, R"({"no_rope_layers": [1, 0, 0, 1], "moe_layers": [2],
      "use_qk_norm": false, "attn_temperature_tuning": false, "layer_types": ["full_attention",
      "chunked_attention", "full_attention", "full_attention"]})");
  EXPECT_EQ(spec.layers[1].attention().rope, kNoRope);
  EXPECT_EQ(spec.layers[1].attention().chunk, 8192);
  EXPECT_EQ(spec.layers[0].attention().chunk, 0);
  EXPECT_EQ(spec.layers[0].attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_FALSE(spec.layers[1].attention().query_scale);
  EXPECT_EQ(spec.layers[1].moe(), nullptr);
  EXPECT_NE(spec.layers[2].moe(), nullptr);
  expect_refused(name, R"({"moe_layers": [4]})", StatusCode::kBadModel, "moe_layers");
  expect_refused(name, R"({"no_rope_layers": [1, 0]})", StatusCode::kBadModel, "no_rope_layers");
  expect_refused(name, R"({"no_rope_layer_interval": 0})", StatusCode::kBadModel, "interval");
  expect_refused(name, R"({"interleave_moe_layer_step": 0})", StatusCode::kBadModel, "step");
  expect_refused(name, R"({"attention_chunk_size": 0})", StatusCode::kBadModel, "chunk");
  expect_refused(name, R"({"floor_scale": 0})", StatusCode::kBadModel, "queries that grow");
  expect_refused(name, R"({"layer_types": ["sliding_attention", "full_attention",
      "full_attention", "full_attention"]})",
                 StatusCode::kUnimplemented, "layer_types");
}

TEST(LaterFamilies, CwmSeesAllKeysInTheFirstOfFourLayers) {
  const std::string_view name = "CwmForCausalLM";
  const DecoderSpec spec = good(name, "{" + std::string(kYarn) + R"(}, "sliding_window": 9})");
  EXPECT_EQ(spec.layers[0].attention().window, 0);
  EXPECT_EQ(spec.layers[1].attention().window, 9);
  EXPECT_EQ(spec.layers[3].attention().window, 9);
  EXPECT_EQ(spec.attention().head_dim, 128);
  expect_refused(name, "{}", StatusCode::kBadModel, "rope_parameters");
}

TEST(LaterFamilies, FlexOlmoNormsAfterItsMixtures) {
  const std::string_view name = "FlexOlmoForCausalLM";
  const DecoderSpec spec = good(name, R"({"norm_topk_prob": true})");
  EXPECT_EQ(spec.layers[0].norms, NormPlacement::kAfter);
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kWhole);
  EXPECT_EQ(spec.layers[0].moe()->num_experts, 7);
  EXPECT_EQ(spec.layers[0].moe()->experts_per_token, 5);
  EXPECT_TRUE(spec.layers[0].moe()->routing.weights_sum_to_one);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 500000.0);
  expect_refused(name, R"({"sliding_window": 8})", StatusCode::kUnimplemented, "sliding_window");
}

TEST(LaterFamilies, Jais2HasLayerNormsAndBiases) {
  const std::string_view name = "Jais2ForCausalLM";
  const DecoderSpec spec = good(name);
  EXPECT_EQ(spec.norm.kind, NormKind::kLayer);
  EXPECT_TRUE(has(spec, TensorRole::kMlpNormBias));
  EXPECT_TRUE(has(spec, TensorRole::kUpBias));
  EXPECT_TRUE(has(spec, TensorRole::kAttentionBias));
  EXPECT_FALSE(has(spec, TensorRole::kGate));
  EXPECT_FALSE(has(good(name, R"({"mlp_bias": false})"), TensorRole::kUpBias));
  expect_refused(name, R"({"hidden_act": "silu"})", StatusCode::kUnimplemented, "hidden_act");
}

TEST(LaterFamilies, WhatIsMissingOfAnArchitectureIsSaid) {
  const auto expect = [](std::string_view name, std::string_view why) {
    expect_refused(name, "{}", StatusCode::kBadModel, name);
    expect_refused(name, "{}", StatusCode::kBadModel, why);
  };
  expect("Qwen3NextForCausalLM", "linear attention");
  expect("GraniteMoeHybridForCausalLM", "state-space layers");
  expect("RecurrentGemmaForCausalLM", "convolutional");
  expect("BertModel", "encoder");
  expect("T5ForConditionalGeneration", "encoder with a decoder");
  expect("InternLM2ForCausalLM", "code of its repository");
  expect("BitNetForCausalLM", "ternary");
  expect("DiffLlamaForCausalLM", "more than a softmax");
  expect("NobodyKnowsForCausalLM", "is not supported");
  for (const std::string& known : known_architectures()) {
    EXPECT_TRUE(why_architecture_is_refused(known).empty()) << known << " is read";
  }
}

}  // namespace
}  // namespace quire::families_test
