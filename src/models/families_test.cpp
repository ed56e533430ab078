// What the families of other blocks than Llama's read from config.json: where their layers differ.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "models/families_test_support.h"

namespace quire {
namespace families_test {

constexpr std::string_view kFamilies[] = {
    "LlamaForCausalLM",    "MistralForCausalLM",        "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",    "Gemma3ForCausalLM",         "GraniteForCausalLM",
    "GemmaForCausalLM",    "Gemma2ForCausalLM",         "Gemma4ForCausalLM",
    "Phi3ForCausalLM",     "SmolLM3ForCausalLM",        "Olmo2ForCausalLM",
    "StableLmForCausalLM", "Starcoder2ForCausalLM",     "CohereForCausalLM",
    "SeedOssForCausalLM",  "Ernie4_5ForCausalLM",       "HeliumForCausalLM",
    "GlmForCausalLM",      "Glm4ForCausalLM",           "Olmo3ForCausalLM",
    "Exaone4ForCausalLM",  "Cohere2ForCausalLM",        "MinistralForCausalLM",
    "ArceeForCausalLM",    "NemotronForCausalLM",       "PhiForCausalLM",
    "OlmoForCausalLM",     "HunYuanDenseV1ForCausalLM", "GPTNeoXForCausalLM",
    "GPTJForCausalLM",     "MixtralForCausalLM",        "Qwen2MoeForCausalLM",
    "Qwen3MoeForCausalLM", "OlmoeForCausalLM",          "GraniteMoeForCausalLM",
};

// A tensor without a name would never be found.
TEST(Families, NameEveryTensorThatTheyNeed) {
  for (const std::string_view family : kFamilies) {
    const DecoderSpec spec = good(family);
    for (const TensorShape& tensor : spec.tensors()) {
      EXPECT_NE(spec.names.name(tensor.role), "") << family << ' ' << static_cast<int>(tensor.role);
    }
    for (const TensorShape& tensor : spec.layer_tensors(3)) {
      EXPECT_NE(spec.names.name(tensor.role, 3).find(".3."), std::string::npos)
          << family << ' ' << static_cast<int>(tensor.role);
    }
  }
}

TEST(Families, GemmaIsLlamaWithNormsAround0AndScaledEmbeddings) {
  const DecoderSpec spec = good("GemmaForCausalLM", R"({"hidden_act": "gelu",
      "hidden_activation": null})");
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 8.0);
  EXPECT_TRUE(spec.round_embedding_scale);
  EXPECT_DOUBLE_EQ(spec.norm.weight_offset, 1.0);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_EQ(spec.attention().head_dim, 256);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 1.0 / 16);
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(spec.layers[3].norms, NormPlacement::kBefore);
  EXPECT_EQ(std::get<GatedMlpSpec>(spec.layers[3].feed_forward).activation, Activation::kGeluTanh);
  EXPECT_EQ(good("GemmaForCausalLM", R"({"head_dim": 16})").attention().head_dim, 16);
  const StatusCode code = StatusCode::kUnimplemented;
  expect_refused("GemmaForCausalLM", R"({"hidden_act": "relu"})", code, "hidden_act");
  expect_refused("GemmaForCausalLM", R"({"hidden_activation": "silu"})", code, "hidden_activation");
  expect_refused("GemmaForCausalLM", R"({"use_bidirectional_attention": true})", code,
                 "use_bidirectional_attention");
  expect_refused("GemmaForCausalLM", R"({"sliding_window": 9})", code, "sliding_window");
}

TEST(Families, GraniteHasFourScales) {
  const DecoderSpec spec = good("GraniteForCausalLM", R"({"attention_multiplier": 0.015625,
      "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0})");
  EXPECT_DOUBLE_EQ(spec.attention().scale, 0.015625);
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 12.0);
  EXPECT_DOUBLE_EQ(spec.layers[3].residual_scale, 0.22);
  EXPECT_DOUBLE_EQ(spec.logit_scale, 0.125);
  EXPECT_DOUBLE_EQ(good("GraniteForCausalLM").attention().scale, 1.0);
  expect_refused("GraniteForCausalLM", R"({"logits_scaling": 0})", StatusCode::kBadModel, "logits");
  expect_refused("GraniteForCausalLM", R"({"residual_multiplier": -1})", StatusCode::kBadModel,
                 "residuals");
}

TEST(Families, Phi3HasFusedTensorsAndMayTurnAPart) {
  const DecoderSpec spec = good("Phi3ForCausalLM", R"({"partial_rotary_factor": 0.75})");
  EXPECT_TRUE(has(spec, TensorRole::kQueryKeyValue));
  EXPECT_FALSE(has(spec, TensorRole::kQuery));
  EXPECT_TRUE(has(spec, TensorRole::kGateUp));
  EXPECT_FALSE(has(spec, TensorRole::kGate));
  EXPECT_EQ(spec.ropes[0].rotary_dim, 12);
  EXPECT_EQ(good("Phi3ForCausalLM").ropes[0].rotary_dim, 16);
  EXPECT_EQ(good("Phi3ForCausalLM", R"({"sliding_window": 9})").layers[3].attention().window, 9);
  expect_refused("Phi3ForCausalLM", R"({"partial_rotary_factor": 0.2})", StatusCode::kBadModel,
                 "3 of 16 dimensions");
  expect_refused("Phi3ForCausalLM", R"({"partial_rotary_factor": 1.5})", StatusCode::kBadModel,
                 "partial_rotary_factor is 1.5");
}

TEST(Families, SmolLM3HasLayersWithoutPositions) {
  const auto turning = [](std::string_view changes) {
    std::vector<bool> result;
    for (const LayerSpec& layer : good("SmolLM3ForCausalLM", changes).layers) {
      result.push_back(layer.attention().rope != kNoRope);
    }
    return result;
  };
  EXPECT_EQ(turning("{}"), std::vector<bool>({true, true, true, false}));
  EXPECT_EQ(turning(R"({"no_rope_layer_interval": 2})"),
            std::vector<bool>({true, false, true, false}));
  EXPECT_EQ(turning(R"({"no_rope_layers": [0, 1, 1, 0]})"),
            std::vector<bool>({false, true, true, false}));
  const std::string_view name = "SmolLM3ForCausalLM";
  expect_refused(name, R"({"no_rope_layers": [0]})", StatusCode::kBadModel, "1 entries");
  expect_refused(name, R"({"no_rope_layers": [0, 1, 2, 1]})", StatusCode::kBadModel, "0 and 1");
  expect_refused(name, R"({"no_rope_layers": 3})", StatusCode::kBadModel, "a list");
  expect_refused(name, R"({"no_rope_layer_interval": 0})", StatusCode::kBadModel, "interval is 0");
  expect_refused(name, R"({"use_sliding_window": true})", StatusCode::kUnimplemented,
                 "use_sliding_window");
}

TEST(Families, Olmo2NormsAfterItsBlocks) {
  const DecoderSpec spec = good("Olmo2ForCausalLM");
  EXPECT_EQ(spec.layers[0].norms, NormPlacement::kAfter);
  EXPECT_FALSE(has(spec, TensorRole::kInputNorm));
  EXPECT_FALSE(has(spec, TensorRole::kMlpNorm));
  EXPECT_TRUE(has(spec, TensorRole::kMlpOutputNorm));
  for (const TensorShape& tensor : spec.layer_tensors(0)) {
    if (tensor.role == TensorRole::kQueryNorm) {
      EXPECT_EQ(tensor.sizes[0], 64);
    }
    if (tensor.role == TensorRole::kKeyNorm) {
      EXPECT_EQ(tensor.sizes[0], 32);
    }
  }
}

TEST(Families, StableLmHasLayerNormsAndMayBeParallel) {
  const DecoderSpec spec = good("StableLmForCausalLM", R"({"use_qkv_bias": true})");
  EXPECT_EQ(spec.norm.kind, NormKind::kLayer);
  EXPECT_DOUBLE_EQ(spec.norm.epsilon, 1e-4);
  EXPECT_TRUE(has(spec, TensorRole::kMlpNormBias));
  EXPECT_TRUE(has(spec, TensorRole::kFinalNormBias));
  EXPECT_TRUE(has(spec, TensorRole::kQueryBias));
  EXPECT_FALSE(has(spec, TensorRole::kAttentionBias));
  EXPECT_EQ(spec.ropes[0].rotary_dim, 4);
  const DecoderSpec parallel = good("StableLmForCausalLM", R"({"use_parallel_residual": true})");
  EXPECT_TRUE(parallel.layers[0].parallel);
  EXPECT_FALSE(has(parallel, TensorRole::kMlpNorm));
  expect_refused("StableLmForCausalLM", R"({"qk_layernorm": true})", StatusCode::kUnimplemented,
                 "qk_layernorm");
}

TEST(Families, Starcoder2HasAnMlpWithoutAGate) {
  const DecoderSpec spec = good("Starcoder2ForCausalLM", R"({"hidden_act": "gelu_pytorch_tanh"})");
  EXPECT_TRUE(std::holds_alternative<PlainMlpSpec>(spec.layers[0].feed_forward));
  EXPECT_DOUBLE_EQ(spec.norm.epsilon, 1e-3);
  EXPECT_FALSE(has(spec, TensorRole::kGate));
  EXPECT_TRUE(has(spec, TensorRole::kUpBias));
  EXPECT_FALSE(has(good("Starcoder2ForCausalLM", R"({"use_bias": false})"), TensorRole::kUpBias));
  expect_refused("Starcoder2ForCausalLM", R"({"hidden_act": "silu"})", StatusCode::kUnimplemented,
                 "hidden_act");
}

TEST(Families, CohereHasOneNormForBothBlocks) {
  const DecoderSpec spec = good("CohereForCausalLM");
  EXPECT_TRUE(spec.layers[0].parallel);
  EXPECT_TRUE(has(spec, TensorRole::kInputNorm));
  EXPECT_FALSE(has(spec, TensorRole::kMlpNorm));
  EXPECT_FALSE(has(spec, TensorRole::kInputNormBias));
  EXPECT_EQ(spec.rope_style, RopeStyle::kInterleaved);
  EXPECT_DOUBLE_EQ(spec.logit_scale, 0.0625);
  expect_refused("CohereForCausalLM", R"({"use_qk_norm": true})", StatusCode::kUnimplemented,
                 "use_qk_norm");
}

using Windows = std::vector<std::int32_t>;

Windows windows(const DecoderSpec& spec) {
  Windows result;
  for (const LayerSpec& layer : spec.layers) result.push_back(layer.attention().window);
  return result;
}

std::vector<std::int32_t> ropes(const DecoderSpec& spec) {
  std::vector<std::int32_t> result;
  for (const LayerSpec& layer : spec.layers) result.push_back(layer.attention().rope);
  return result;
}

TEST(Families, SeedOssHasBiasesUnlessItSaysOtherwise) {
  const DecoderSpec spec = good("SeedOssForCausalLM");
  EXPECT_TRUE(has(spec, TensorRole::kQueryBias));
  EXPECT_FALSE(has(spec, TensorRole::kAttentionBias));
  EXPECT_FALSE(has(spec, TensorRole::kUpBias));
  EXPECT_EQ(spec.attention().head_dim, 128);
  const DecoderSpec other = good("SeedOssForCausalLM", R"({"attention_bias": false,
      "attention_out_bias": true, "mlp_bias": true})");
  EXPECT_FALSE(has(other, TensorRole::kQueryBias));
  EXPECT_TRUE(has(other, TensorRole::kAttentionBias));
  EXPECT_TRUE(has(other, TensorRole::kUpBias));
  expect_refused("SeedOssForCausalLM", R"({"sliding_window": 9})", StatusCode::kUnimplemented,
                 "sliding_window");
}

TEST(Families, Ernie45AndHeliumTurnNeighboursByBasesOfTheirOwn) {
  const DecoderSpec ernie = good("Ernie4_5ForCausalLM", R"({"use_bias": true})");
  EXPECT_EQ(ernie.rope_style, RopeStyle::kInterleaved);
  EXPECT_DOUBLE_EQ(ernie.ropes[0].theta, 500000.0);
  EXPECT_TRUE(ernie.tie_word_embeddings);
  EXPECT_TRUE(has(ernie, TensorRole::kAttentionBias));
  EXPECT_TRUE(has(ernie, TensorRole::kDownBias));
  EXPECT_FALSE(has(good("Ernie4_5ForCausalLM"), TensorRole::kQueryBias));
  const DecoderSpec helium = good("HeliumForCausalLM", R"({"attention_bias": true})");
  EXPECT_EQ(helium.rope_style, RopeStyle::kInterleaved);
  EXPECT_DOUBLE_EQ(helium.ropes[0].theta, 100000.0);
  EXPECT_TRUE(has(helium, TensorRole::kQueryBias));
  EXPECT_FALSE(has(helium, TensorRole::kAttentionBias));
  expect_refused("HeliumForCausalLM", R"({"hidden_act": "gelu"})", StatusCode::kUnimplemented,
                 "hidden_act");
}

TEST(Families, GlmTurnsHalfOfAHeadAndTheSecondNormsAroundItsBlocks) {
  const DecoderSpec glm = good("GlmForCausalLM");
  EXPECT_EQ(glm.ropes[0].rotary_dim, 64);
  EXPECT_EQ(glm.rope_style, RopeStyle::kInterleaved);
  EXPECT_TRUE(has(glm, TensorRole::kGateUp));
  EXPECT_TRUE(has(glm, TensorRole::kQueryBias));
  EXPECT_FALSE(has(glm, TensorRole::kAttentionBias));
  EXPECT_EQ(glm.layers[0].norms, NormPlacement::kBefore);
  const DecoderSpec glm4 = good("Glm4ForCausalLM", R"({"attention_bias": false})");
  EXPECT_EQ(glm4.layers[3].norms, NormPlacement::kAround);
  EXPECT_FALSE(has(glm4, TensorRole::kQueryBias));
  EXPECT_EQ(glm4.names.name(TensorRole::kMlpNorm, 1),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(glm4.names.name(TensorRole::kAttentionOutputNorm, 1),
            "model.layers.1.post_self_attn_layernorm.weight");
  expect_refused("Glm4ForCausalLM", R"({"mlp_bias": true})", StatusCode::kUnimplemented,
                 "mlp_bias");
}

TEST(Families, Olmo3ScalesPositionsOfFullLayersAlone) {
  const std::string_view name = "Olmo3ForCausalLM";
  const DecoderSpec spec = good(name, R"({"rope_theta": 700.0, "sliding_window": 9,
      "rope_scaling": {"rope_type": "linear", "factor": 2.0}})");
  EXPECT_EQ(windows(spec), Windows({9, 9, 9, 0}));
  EXPECT_EQ(ropes(spec), (std::vector<std::int32_t>{1, 1, 1, 0}));
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_EQ(spec.ropes[1].scaling, RopeScaling::kNone);
  EXPECT_DOUBLE_EQ(spec.ropes[1].theta, 700.0);
  EXPECT_DOUBLE_EQ(good(name).ropes[0].theta, 500000.0);
  EXPECT_EQ(good(name).layers[0].attention().query_key_norm, QueryKeyNorm::kWhole);
  EXPECT_EQ(good(name).layers[0].norms, NormPlacement::kAfter);
  expect_refused(name, R"({"sliding_window": null})", StatusCode::kBadModel, "no sliding_window");
  expect_refused(name, R"({"layer_types": ["full_attention"]})", StatusCode::kBadModel,
                 "1 entries for 4 layers");
  expect_refused(name, R"({"rope_parameters": {"rope_type": "default"}})", StatusCode::kBadModel,
                 "full_attention");
}

TEST(Families, Exaone4HasNoPositionsInFullLayersBesideWindows) {
  const std::string_view name = "Exaone4ForCausalLM";
  const DecoderSpec spec = good(name, R"({"sliding_window": 9})");
  EXPECT_EQ(windows(spec), Windows({9, 9, 9, 0}));
  EXPECT_EQ(ropes(spec), (std::vector<std::int32_t>{0, 0, 0, kNoRope}));
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kHeads);
  EXPECT_EQ(spec.layers[0].norms, NormPlacement::kAfter);
  const DecoderSpec full = good(name, R"({"sliding_window": null})");
  EXPECT_EQ(windows(full), Windows({0, 0, 0, 0}));
  EXPECT_EQ(ropes(full), (std::vector<std::int32_t>{0, 0, 0, 0}));
  // A pattern of letters stands beside the list that it describes.
  const DecoderSpec listed = good(name, R"({"sliding_window_pattern": "LG", "sliding_window": 9,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                      "full_attention"]})");
  EXPECT_EQ(windows(listed), Windows({9, 0, 9, 0}));
  expect_refused(name, R"({"sliding_window_pattern": "LG"})", StatusCode::kBadModel,
                 "sliding_window_pattern");
  expect_refused(name, R"({"attention_bias": true})", StatusCode::kUnimplemented, "attention_bias");
}

TEST(Families, Cohere2HasPositionsInLayersWithAWindowAlone) {
  const std::string_view name = "Cohere2ForCausalLM";
  const DecoderSpec spec = good(name, R"({"sliding_window": 9, "sliding_window_pattern": 2})");
  EXPECT_EQ(windows(spec), Windows({9, 0, 9, 0}));
  EXPECT_EQ(ropes(spec), (std::vector<std::int32_t>{0, kNoRope, 0, kNoRope}));
  EXPECT_TRUE(spec.layers[1].parallel);
  EXPECT_EQ(windows(good(name)), Windows({4096, 4096, 4096, 0}));
  expect_refused(name, R"({"sliding_window_pattern": 0})", StatusCode::kBadModel,
                 "sliding_window_pattern is 0");
  expect_refused("CohereForCausalLM", R"({"sliding_window": 9})", StatusCode::kUnimplemented,
                 "sliding_window");
}

TEST(Families, MinistralHasAWindowWhereLayersSaySo) {
  const std::string_view name = "MinistralForCausalLM";
  EXPECT_EQ(windows(good(name)), Windows({4096, 4096, 4096, 4096}));
  EXPECT_EQ(windows(good(name, R"({"sliding_window": null})")), Windows({0, 0, 0, 0}));
  const DecoderSpec spec = good(name, R"({"sliding_window": 9, "layer_types":
      ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]})");
  EXPECT_EQ(windows(spec), Windows({0, 9, 9, 0}));
  expect_refused(name, R"({"layer_types": ["full_attention", "chunked_attention",
      "full_attention", "full_attention"]})",
                 StatusCode::kUnimplemented, "chunked_attention");
}

Activation plain_activation(const DecoderSpec& spec) {
  return std::get<PlainMlpSpec>(spec.layers[0].feed_forward).activation;
}

TEST(Families, ArceeSquaresWhatIsAboveZeroWithoutAGate) {
  const std::string_view name = "ArceeForCausalLM";
  EXPECT_EQ(plain_activation(good(name)), Activation::kRelu2);
  EXPECT_EQ(plain_activation(good(name, R"({"hidden_act": "gelu"})")), Activation::kGelu);
  EXPECT_FALSE(has(good(name), TensorRole::kGate));
  EXPECT_TRUE(has(good(name, R"({"mlp_bias": true})"), TensorRole::kDownBias));
  EXPECT_TRUE(has(good(name, R"({"attention_bias": true})"), TensorRole::kAttentionBias));
  expect_refused(name, R"({"hidden_act": "silu"})", StatusCode::kUnimplemented, "hidden_act");
  expect_refused("LlamaForCausalLM", R"({"hidden_act": "relu2"})", StatusCode::kUnimplemented,
                 "hidden_act");
}

TEST(Families, NemotronHasLayerNormsAroundOneAndTurnsHalf) {
  const DecoderSpec spec = good("NemotronForCausalLM");
  EXPECT_EQ(spec.norm.kind, NormKind::kLayer);
  EXPECT_DOUBLE_EQ(spec.norm.weight_offset, 1.0);
  EXPECT_DOUBLE_EQ(spec.norm.epsilon, 1e-2);
  EXPECT_TRUE(has(spec, TensorRole::kInputNormBias));
  EXPECT_EQ(plain_activation(spec), Activation::kRelu2);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  expect_refused("NemotronForCausalLM", R"({"hidden_act": "silu"})", StatusCode::kUnimplemented,
                 "hidden_act");
}

TEST(Families, PhiHasBiasesInTheLogitsToo) {
  const DecoderSpec spec = good("PhiForCausalLM", R"({"hidden_act": "gelu_new"})");
  EXPECT_TRUE(spec.layers[0].parallel);
  EXPECT_TRUE(has(spec, TensorRole::kOutputBias));
  EXPECT_TRUE(has(spec, TensorRole::kAttentionBias));
  EXPECT_TRUE(has(spec, TensorRole::kUpBias));
  EXPECT_FALSE(has(spec, TensorRole::kMlpNorm));
  EXPECT_EQ(plain_activation(spec), Activation::kGeluTanh);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  expect_refused("PhiForCausalLM", R"({"qk_layernorm": true})", StatusCode::kUnimplemented,
                 "qk_layernorm");
}

TEST(Families, OlmoHasNormsWithoutParameters) {
  const DecoderSpec spec = good("OlmoForCausalLM", R"({"clip_qkv": null})");
  EXPECT_FALSE(has(spec, TensorRole::kInputNorm));
  EXPECT_FALSE(has(spec, TensorRole::kFinalNorm));
  EXPECT_DOUBLE_EQ(spec.norm.epsilon, 1e-5);
  EXPECT_EQ(spec.attention().qkv_limit, 0.0);
  EXPECT_EQ(good("OlmoForCausalLM", R"({"clip_qkv": 8.0})").attention().qkv_limit, 8.0);
  expect_refused("OlmoForCausalLM", R"({"clip_qkv": -8.0})", StatusCode::kBadModel,
                 "limited to -8");
}

TEST(Families, HunyuanNormsRotatedHeadsAndStretchesItsBase) {
  const std::string_view name = "HunYuanDenseV1ForCausalLM";
  const DecoderSpec spec = good(name, R"({"head_dim": 128, "rope_scaling": {"type": "dynamic",
      "factor": 1.0, "alpha": 1000.0}})");
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kRotatedHeads);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_NEAR(spec.ropes[0].theta, 11158839.925, 1e-3);
  const DecoderSpec dynamic = good(name, R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  EXPECT_EQ(dynamic.ropes[0].scaling, RopeScaling::kDynamic);
  EXPECT_EQ(dynamic.max_position_embeddings, 1024);
  expect_refused(name, R"({"use_cla": true})", StatusCode::kUnimplemented, "use_cla");
}

TEST(Families, GptNeoxHasANormForEachOfTwoBlocksSideBySide) {
  const std::string_view name = "GPTNeoXForCausalLM";
  const DecoderSpec spec = good(name, R"({"rotary_pct": 0.5, "rotary_emb_base": 700})");
  EXPECT_TRUE(spec.layers[0].parallel);
  EXPECT_TRUE(has(spec, TensorRole::kMlpNormBias));
  EXPECT_TRUE(has(spec, TensorRole::kQueryKeyValueBias));
  EXPECT_FALSE(has(spec, TensorRole::kQueryBias));
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 700.0);
  EXPECT_EQ(plain_activation(spec), Activation::kGelu);
  EXPECT_EQ(plain_activation(good(name, R"({"hidden_act": "gelu_fast"})")), Activation::kGeluTanh);
  const DecoderSpec serial = good(name, R"({"use_parallel_residual": false,
      "attention_bias": false})");
  EXPECT_FALSE(serial.layers[0].parallel);
  EXPECT_TRUE(has(serial, TensorRole::kMlpNorm));
  EXPECT_FALSE(has(serial, TensorRole::kQueryKeyValueBias));
  EXPECT_EQ(serial.ropes[0].rotary_dim, 4);
  expect_refused(name, R"({"num_key_value_heads": 2})", StatusCode::kUnimplemented,
                 "num_key_value_heads");
}

TEST(Families, GptjHasKeysOfItsOwn) {
  const std::string_view name = "GPTJForCausalLM";
  const DecoderSpec spec = good(name, R"({"hidden_size": null, "n_embd": 128, "n_head": 8,
      "n_layer": 3, "n_positions": 99, "n_inner": null, "activation_function": "gelu_new"})");
  EXPECT_EQ(spec.hidden_size, 128);
  EXPECT_EQ(spec.num_layers(), 3);
  EXPECT_EQ(spec.max_position_embeddings, 99);
  EXPECT_EQ(spec.attention().num_kv_heads, 8);
  EXPECT_EQ(spec.layers[0].intermediate_size(), 512);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec.rope_style, RopeStyle::kInterleaved);
  EXPECT_TRUE(spec.layers[0].parallel);
  EXPECT_TRUE(has(spec, TensorRole::kOutputBias));
  EXPECT_FALSE(has(spec, TensorRole::kQueryBias));
  EXPECT_FALSE(has(spec, TensorRole::kMlpNorm));
  EXPECT_EQ(good(name, R"({"n_inner": 80})").layers[0].intermediate_size(), 80);
  expect_refused(name, R"({"rotary_dim": 18})", StatusCode::kBadModel, "rotary_dim is 18");
  expect_refused(name, R"({"n_embd": -4})", StatusCode::kBadModel, "hidden_size is -4");
  expect_refused(name, R"({"activation_function": "tanh"})", StatusCode::kUnimplemented,
                 "activation_function");
}

}  // namespace families_test
}  // namespace quire
