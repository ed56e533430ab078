// What the families of other blocks than Llama's read from config.json: where their layers differ.
#include <algorithm>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "base/json.h"
#include "models/registry.h"

namespace quire {
namespace families_test {

// A small configuration of `architecture` with `changes` merged in.
Result<DecoderSpec> spec_of(std::string_view architecture, std::string_view changes) {
  json::object config = {{"architectures", {architecture}},
                         {"num_hidden_layers", 4},
                         {"hidden_size", 64},
                         {"intermediate_size", 96},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"vocab_size", 100},
                         {"max_position_embeddings", 512},
                         {"rms_norm_eps", 1e-5},
                         {"layer_norm_eps", 1e-4},
                         {"norm_epsilon", 1e-3}};
  const json::value changed = parse_json(changes, "changes").value();
  for (const auto& change : changed.get_object()) config[change.key()] = change.value();
  return spec_from_config(JsonReader(config, "config.json"));
}

DecoderSpec good(std::string_view architecture, std::string_view changes = "{}") {
  auto spec = spec_of(architecture, changes);
  EXPECT_TRUE(spec.ok()) << spec.status().to_string();
  return spec.ok() ? *std::move(spec) : DecoderSpec();
}

bool has(const DecoderSpec& spec, TensorRole role) {
  const auto listed = [role](const std::vector<TensorShape>& tensors) {
    return std::ranges::find(tensors, role, &TensorShape::role) != tensors.end();
  };
  return listed(spec.tensors()) || listed(spec.layer_tensors(0));
}

void expect_refused(std::string_view architecture, std::string_view changes, StatusCode code,
                    std::string_view named) {
  const auto spec = spec_of(architecture, changes);
  ASSERT_FALSE(spec.ok()) << architecture << ' ' << changes;
  EXPECT_EQ(status_code_name(spec.status().code()), status_code_name(code)) << changes;
  EXPECT_NE(spec.status().message().find(named), std::string::npos)
      << changes << ": " << spec.status().to_string();
}

constexpr std::string_view kFamilies[] = {
    "LlamaForCausalLM",     "MistralForCausalLM",  "Qwen2ForCausalLM",      "Qwen3ForCausalLM",
    "Gemma3ForCausalLM",    "GraniteForCausalLM",  "Phi3ForCausalLM",       "SmolLM3ForCausalLM",
    "Olmo2ForCausalLM",     "StableLmForCausalLM", "Starcoder2ForCausalLM", "CohereForCausalLM",
    "MixtralForCausalLM",   "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",   "OlmoeForCausalLM",
    "GraniteMoeForCausalLM"};

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
  expect_refused("Phi3ForCausalLM", R"({"rope_scaling": {"type": "longrope", "factor": 4.0}})",
                 StatusCode::kUnimplemented, "longrope");
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
