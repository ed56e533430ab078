// What families read from config.json: sizes, layers and defaults; and what they refuse by name,
// because ignoring it would change results.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "models/registry.h"

namespace quire {
namespace spec_test {

// A small configuration of `architecture` with `changes` merged in; a null takes a key out.
Result<DecoderSpec> spec_of(std::string_view architecture, std::string_view changes = "{}") {
  json::object config = {{"architectures", {architecture}},
                         {"num_hidden_layers", 4},
                         {"hidden_size", 64},
                         {"intermediate_size", 96},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"vocab_size", 100},
                         {"max_position_embeddings", 512},
                         {"rms_norm_eps", 1e-5}};
  const json::value changed = parse_json(changes, "changes").value();
  for (const auto& change : changed.get_object()) config[change.key()] = change.value();
  return spec_from_config(JsonReader(config, "config.json"));
}

DecoderSpec good(std::string_view architecture, std::string_view changes = "{}") {
  auto spec = spec_of(architecture, changes);
  EXPECT_TRUE(spec.ok()) << spec.status().to_string();
  return spec.ok() ? *std::move(spec) : DecoderSpec();
}

std::vector<std::int32_t> windows(const DecoderSpec& spec) {
  std::vector<std::int32_t> result;
  for (const LayerSpec& layer : spec.layers) result.push_back(layer.attention().window);
  return result;
}

// Whether a checkpoint of the model has tensors of this role.
bool has(const DecoderSpec& spec, TensorRole role) {
  const auto listed = [role](const std::vector<TensorShape>& tensors) {
    return std::ranges::find(tensors, role, &TensorShape::role) != tensors.end();
  };
  return listed(spec.tensors()) || listed(spec.layer_tensors(0));
}

Activation activation(const DecoderSpec& spec) {
  return std::get<GatedMlpSpec>(spec.layers.at(0).feed_forward).activation;
}

void expect_refused(std::string_view architecture, std::string_view changes, StatusCode code,
                    std::string_view named) {
  const auto spec = spec_of(architecture, changes);
  ASSERT_FALSE(spec.ok()) << architecture << ' ' << changes;
  EXPECT_EQ(status_code_name(spec.status().code()), status_code_name(code)) << changes;
  EXPECT_NE(spec.status().message().find(named), std::string::npos)
      << changes << ": " << spec.status().to_string();
  EXPECT_NE(spec.status().message().find("config.json"), std::string::npos);
}

constexpr std::string_view kAll[] = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                                     "Qwen3ForCausalLM", "Gemma3ForCausalLM"};

TEST(DecoderSpec, ReadsLlama) {
  const DecoderSpec spec = good("LlamaForCausalLM", R"({"attention_bias": true})");
  EXPECT_EQ(spec.attention().head_dim, 16);
  EXPECT_EQ(spec.attention().num_kv_heads, 2);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 0.25);
  EXPECT_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_EQ(windows(spec), std::vector<std::int32_t>({0, 0, 0, 0}));
  EXPECT_TRUE(has(spec, TensorRole::kQueryBias));
  EXPECT_TRUE(has(spec, TensorRole::kAttentionBias));
  EXPECT_FALSE(has(spec, TensorRole::kGateBias));
  EXPECT_FALSE(has(spec, TensorRole::kQueryNorm));
  EXPECT_TRUE(has(spec, TensorRole::kOutput));
  EXPECT_EQ(spec.computed_bytes(100).main, 100U * 16 * 4);
  EXPECT_EQ(activation(good("LlamaForCausalLM", R"({"hidden_act": "gelu_pytorch_tanh"})")),
            Activation::kGeluTanh);
}

TEST(DecoderSpec, ReadsMistralsWindow) {
  EXPECT_EQ(good("MistralForCausalLM").attention().window, 4096);  // the first models left it out
  EXPECT_EQ(good("MistralForCausalLM", R"({"sliding_window": null})").attention().window, 0);
  EXPECT_EQ(good("MistralForCausalLM", R"({"sliding_window": 33})").layers[3].attention().window,
            33);
  EXPECT_EQ(good("MistralForCausalLM", R"({"head_dim": 24})").attention().head_dim, 24);
}

TEST(DecoderSpec, ReadsQwensWindows) {
  using Windows = std::vector<std::int32_t>;
  EXPECT_EQ(windows(good("Qwen2ForCausalLM", R"({"sliding_window": 9})")), Windows({0, 0, 0, 0}));
  EXPECT_EQ(windows(good("Qwen2ForCausalLM", R"({"use_sliding_window": true, "sliding_window": 9,
                                                 "max_window_layers": 3})")),
            Windows({0, 0, 0, 9}));
  EXPECT_EQ(windows(good("Qwen3ForCausalLM", R"({"use_sliding_window": true, "sliding_window": 9,
      "layer_types": ["sliding_attention", "full_attention", "full_attention",
                      "sliding_attention"]})")),
            Windows({9, 0, 0, 9}));
}

TEST(DecoderSpec, ReadsQwensBiasesAndNorms) {
  const DecoderSpec qwen2 = good("Qwen2ForCausalLM");
  EXPECT_TRUE(has(qwen2, TensorRole::kValueBias));
  EXPECT_FALSE(has(qwen2, TensorRole::kAttentionBias));
  EXPECT_FALSE(has(qwen2, TensorRole::kKeyNorm));
  const DecoderSpec qwen3 = good("Qwen3ForCausalLM");
  EXPECT_FALSE(has(qwen3, TensorRole::kValueBias));
  EXPECT_TRUE(has(qwen3, TensorRole::kKeyNorm));
  EXPECT_EQ(qwen3.attention().head_dim, 128);
}

TEST(DecoderSpec, ReadsGemma) {
  const DecoderSpec spec = good("Gemma3ForCausalLM", R"({"num_hidden_layers": 7,
      "sliding_window": 8, "query_pre_attn_scalar": 64})");
  EXPECT_EQ(windows(spec), std::vector<std::int32_t>({8, 8, 8, 8, 8, 0, 8}));
  EXPECT_EQ(spec.layers[0].attention().rope, 1);
  EXPECT_EQ(spec.layers[5].attention().rope, 0);
  EXPECT_EQ(spec.ropes[0].theta, 1e6);
  EXPECT_EQ(spec.ropes[1].theta, 1e4);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 0.125);
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 8.0);
  EXPECT_EQ(spec.norm.weight_offset, 1.0);
  EXPECT_EQ(activation(spec), Activation::kGeluTanh);
  EXPECT_EQ(spec.attention().head_dim, 256);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_TRUE(has(spec, TensorRole::kMlpOutputNorm));
  EXPECT_EQ(spec.computed_bytes(10).main, 2U * 10 * 256 * 4);
}

TEST(DecoderSpec, GemmasRopesInBothSpellings) {
  const DecoderSpec older = good("Gemma3ForCausalLM", R"({"rope_theta": 5e5,
      "rope_local_base_freq": 700, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  const DecoderSpec newer = good("Gemma3ForCausalLM", R"({"rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 700}}})");
  EXPECT_EQ(older.ropes, newer.ropes);
  EXPECT_EQ(older.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_EQ(older.ropes[1].scaling, RopeScaling::kNone);
  EXPECT_EQ(older.max_position_embeddings, 512);
}

// How far sequences may reach: the configuration's length, unless scaling says more.
TEST(DecoderSpec, ScalingWidensTheReach) {
  const auto reach = [](std::string_view scaling) {
    return good("LlamaForCausalLM", "{\"rope_scaling\": " + std::string(scaling) + "}")
        .max_position_embeddings;
  };
  EXPECT_EQ(reach(R"({"type": "linear", "factor": 4.0})"), 2048);
  EXPECT_EQ(reach(R"({"type": "dynamic", "factor": 2.0})"), 1024);
  EXPECT_EQ(reach(R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512})"),
            2048);
  EXPECT_EQ(reach(R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128})"),
            512);
  EXPECT_EQ(reach(R"({"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 128})"),
            512);
}

TEST(Refused, InEveryFamily) {
  constexpr auto kCode = StatusCode::kUnimplemented;
  for (const std::string_view family : kAll) {
    expect_refused(family, R"({"partial_rotary_factor": 0.5})", kCode, "partial_rotary_factor");
    expect_refused(family, R"({"pretraining_tp": 2})", kCode, "pretraining_tp = 2");
    if (family != "Gemma3ForCausalLM") {
      expect_refused(family, R"({"attn_logit_softcapping": 50.0})", kCode,
                     "attn_logit_softcapping");
      expect_refused(family, R"({"final_logit_softcapping": 30.0})", kCode,
                     "final_logit_softcapping");
    }
    expect_refused(family, R"({"use_bidirectional_attention": true})", kCode,
                   "use_bidirectional_attention");
    expect_refused(family, R"({"rope_scaling": {"type": "spiral", "factor": 4.0}})", kCode,
                   "spiral");
    expect_refused(family, R"({"rope_scaling": {"rope_type": "ntk", "factor": 4.0}})", kCode,
                   "ntk");
    expect_refused(family, R"({"rope_scaling": {"rope_type": "default",
                               "mrope_section": [16, 24, 24]}})",
                   kCode, "mrope_section");
    expect_refused(family, R"({"rope_scaling": {"rope_type": "default",
                               "partial_rotary_factor": 0.25}})",
                   kCode, "partial_rotary_factor");
  }
}

TEST(Refused, Activations) {
  for (const std::string_view family : kAll) {
    const bool gemma = family == "Gemma3ForCausalLM";
    const std::string key = gemma ? "hidden_activation" : "hidden_act";
    for (const std::string name : {"gelu", "relu", "gelu_new"}) {
      expect_refused(family, "{\"" + key + "\": \"" + name + "\"}", StatusCode::kUnimplemented,
                     key + " = " + name);
    }
  }
  expect_refused("Gemma3ForCausalLM", R"({"hidden_activation": "silu"})",
                 StatusCode::kUnimplemented, "hidden_activation = silu");
}

TEST(Refused, WhatOnlyOtherFamiliesHave) {
  constexpr auto kCode = StatusCode::kUnimplemented;
  expect_refused("LlamaForCausalLM", R"({"sliding_window": 16})", kCode, "sliding_window = 16");
  expect_refused("LlamaForCausalLM", R"({"layer_types": ["full_attention"]})", kCode,
                 "layer_types");
  expect_refused("MistralForCausalLM", R"({"attention_bias": true})", kCode, "attention_bias");
  expect_refused("MistralForCausalLM", R"({"mlp_bias": true})", kCode, "mlp_bias");
  expect_refused("MistralForCausalLM", R"({"layer_types": ["sliding_attention"]})", kCode,
                 "layer_types");
  expect_refused("Qwen2ForCausalLM", R"({"attention_bias": true})", kCode, "attention_bias");
  expect_refused("Qwen3ForCausalLM", R"({"mlp_bias": true})", kCode, "mlp_bias");
  expect_refused("Gemma3ForCausalLM", R"({"mlp_bias": true})", kCode, "mlp_bias");
  expect_refused("Qwen3ForCausalLM", R"({"layer_types": ["full_attention", "full_attention",
                                         "full_attention", "linear_attention"]})",
                 kCode, "linear_attention");
  expect_refused("LlamaForCausalLM", R"({"rope_parameters": {"full_attention": {}}})", kCode,
                 "full_attention");
}

TEST(Refused, Architectures) {
  expect_refused("MllamaForConditionalGeneration", "{}", StatusCode::kBadModel,
                 "\"MllamaForConditionalGeneration\"");
  expect_refused("LlamaForCausalLM", R"({"architectures": []})", StatusCode::kBadModel,
                 "architectures");
}

TEST(Refused, BrokenValues) {
  constexpr auto kCode = StatusCode::kBadModel;
  const std::string_view llama = "LlamaForCausalLM";
  for (const std::string key : {"num_hidden_layers", "hidden_size", "intermediate_size",
                                "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    expect_refused(llama, "{\"" + key + "\": null}", kCode, key);
    expect_refused(llama, "{\"" + key + "\": -1}", kCode, "-1");
    expect_refused(llama, "{\"" + key + "\": \"8\"}", kCode, key);
  }
  expect_refused(llama, R"({"num_hidden_layers": 1000000000})", kCode, "layers");
  expect_refused(llama, R"({"num_key_value_heads": 3})", kCode, "multiple");
  expect_refused(llama, R"({"head_dim": 15})", kCode, "head_dim");
  expect_refused(llama, R"({"head_dim": 0})", kCode, "head_dim");
  expect_refused(llama, R"({"rms_norm_eps": 0})", kCode, "epsilon");
  expect_refused(llama, R"({"rope_theta": 0})", kCode, "rope base");
  expect_refused("MistralForCausalLM", R"({"sliding_window": 0})", kCode, "sliding_window is 0");
  expect_refused("Gemma3ForCausalLM", R"({"sliding_window": null})", kCode, "sliding_window");
  expect_refused("Gemma3ForCausalLM", R"({"sliding_window_pattern": 0})", kCode,
                 "sliding_window_pattern");
  expect_refused("Gemma3ForCausalLM", R"({"query_pre_attn_scalar": 0})", kCode, "scale");
  expect_refused("Qwen3ForCausalLM", R"({"layer_types": ["full_attention"]})", kCode, "1 entries");
  expect_refused("Qwen3ForCausalLM", R"({"layer_types": ["sliding_attention", "full_attention",
                                         "full_attention", "full_attention"]})",
                 kCode, "use_sliding_window");
}

TEST(Refused, BrokenRopeScaling) {
  const auto refused = [](const std::string& scaling, std::string_view named) {
    expect_refused("LlamaForCausalLM", "{\"rope_scaling\": " + scaling + "}", StatusCode::kBadModel,
                   named);
  };
  refused(R"({"type": "linear"})", "factor");
  refused(R"({"factor": 4.0})", "rope_type");
  refused(R"({"type": "linear", "factor": 0})", "factor");
  refused(R"({"type": "linear", "factor": 1e9})", "positions");
  refused(R"({"type": "dynamic", "factor": 0.5})", "factor");
  refused(R"({"type": "llama3", "factor": 4.0})", "low_freq_factor");
  refused(R"({"type": "llama3", "factor": 4.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0})",
          "high_freq_factor");
  refused(R"({"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 32})", "beta_fast");
  refused(R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0})", "original");
  refused(R"("yarn")", "rope_scaling");
}

}  // namespace spec_test
}  // namespace quire
