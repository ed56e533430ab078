// Rotary positions of published configurations against the reference's numbers, and the same from
// GGUF keys.
#include "models/rope_config.h"

#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/json.h"
#include "models/registry.h"
#include "nn/rotary.h"
#include "weights/test_support.h"

namespace quire {
namespace rope_config_test {

using testing::GgufBuilder;
using testing::le;

TEST(RopeConfig, FrequenciesAreTheReferences) {
  const auto goldens = read_json_file(QUIRE_SOURCE_DIR "/tests/data/rope.json", 1U << 20);
  ASSERT_TRUE(goldens.ok()) << goldens.status().to_string();
  const std::int64_t head_dim = goldens->at("head_dim").as_int64();
  const std::int64_t max_positions = goldens->at("max_positions").as_int64();
  std::vector<std::string> names;
  for (const json::value& golden : goldens->at("cases").as_array()) {
    const std::string name(golden.at("name").as_string());
    json::object config = golden.at("config").as_object();
    config.insert({{"architectures", {"LlamaForCausalLM"}},
                   {"num_hidden_layers", 1},
                   {"hidden_size", 256},
                   {"intermediate_size", 64},
                   {"num_attention_heads", 4},
                   {"vocab_size", 100},
                   {"rms_norm_eps", 1e-5}});
    const auto spec = spec_from_config(JsonReader(config, "config.json"));
    ASSERT_TRUE(spec.ok()) << spec.status().to_string();
    ASSERT_EQ(spec->attention().head_dim, head_dim);
    const RopeSpec& rope = spec->ropes.at(0);
    EXPECT_NEAR(rope.attention_factor, golden.at("attention_factor").to_number<double>(), 1e-7)
        << name;
    const auto frequencies = rotary_frequencies(rope, max_positions);
    const json::array& expected = golden.at("frequencies").as_array();
    ASSERT_EQ(frequencies.size(), expected.size());
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const auto reference = expected[i].to_number<double>();
      EXPECT_NEAR(frequencies[i], reference, 2e-6 * reference) << name << " pair " << i;
    }
    names.push_back(name);
  }
  EXPECT_EQ(names.size(), 12U);
}

TEST(RopeConfig, TableHasCosinesThenSinesTimesTheFactor) {
  RopeSpec rope;
  rope.rotary_dim = 8;
  rope.theta = 100.0;
  rope.attention_factor = 1.5;
  const std::vector<float> table = rotary_values(50, rope);
  for (int p = 0; p < 50; ++p) {
    for (int i = 0; i < 4; ++i) {
      const double angle = p * std::pow(100.0, -2.0 * i / 8);
      EXPECT_NEAR(table.data()[p * 8 + i], 1.5 * std::cos(angle), 1e-5);
      EXPECT_NEAR(table.data()[p * 8 + 4 + i], 1.5 * std::sin(angle), 1e-5);
    }
  }
}

// Keys that every file of the tests has.
GgufBuilder small_gguf(const std::string& architecture) {
  GgufBuilder builder;
  builder.text("general.architecture", architecture);
  for (const auto& [name, value] : {std::pair<std::string, std::uint32_t>{"block_count", 7},
                                    {"embedding_length", 64},
                                    {"feed_forward_length", 32},
                                    {"attention.head_count", 4},
                                    {"attention.head_count_kv", 2},
                                    {"context_length", 4096}}) {
    builder.u32(architecture + "." + name, value);
  }
  builder.key(architecture + ".attention.layer_norm_rms_epsilon", GgufType::kF32, le(1e-5F));
  return builder;
}

GgufBuilder& f32(GgufBuilder& builder, const std::string& key, float value) {
  return builder.key(key, GgufType::kF32, le(value));
}

constexpr std::uint64_t kEmbeddingBytes = 64ULL * 10 * 4;

Result<DecoderSpec> spec_of(GgufBuilder builder) {
  builder.tensor("token_embd.weight", {64, 10}, 0, 0);
  const std::string bytes = builder.build(kEmbeddingBytes);
  const auto file = GgufFile::parse(testing::bytes_of(bytes), "model.gguf");
  if (!file.ok()) return file.status();
  return spec_from_gguf(**file);
}

DecoderSpec good(const GgufBuilder& builder) {
  auto spec = spec_of(builder);
  EXPECT_TRUE(spec.ok()) << spec.status().to_string();
  return spec.ok() ? *std::move(spec) : DecoderSpec();
}

TEST(RopeGguf, Linear) {
  GgufBuilder builder = small_gguf("llama");
  f32(builder, "llama.rope.freq_base", 500.0F);
  f32(builder.text("llama.rope.scaling.type", "linear"), "llama.rope.scaling.factor", 8.0F);
  const RopeSpec rope = good(builder).ropes.at(0);
  EXPECT_EQ(rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.theta, 500.0);

  GgufBuilder older = small_gguf("llama");
  f32(older, "llama.rope.scale_linear", 4.0F);
  EXPECT_EQ(good(older).ropes.at(0).factor, 4.0);

  GgufBuilder none = small_gguf("llama");
  f32(none.text("llama.rope.scaling.type", "none"), "llama.rope.scaling.factor", 8.0F);
  EXPECT_EQ(good(none).ropes.at(0).scaling, RopeScaling::kNone);
}

TEST(RopeGguf, YarnIsThatOfConfigJson) {
  GgufBuilder builder = small_gguf("qwen2");
  f32(builder, "qwen2.rope.freq_base", 1e6F);
  builder.text("qwen2.rope.scaling.type", "yarn");
  f32(builder, "qwen2.rope.scaling.factor", 4.0F);
  builder.u32("qwen2.rope.scaling.original_context_length", 1024);
  const json::value scaling = parse_json(R"({"type": "yarn", "factor": 4.0, "rope_theta": 1000000.0,
                     "original_max_position_embeddings": 1024})",
                                         "rope")
                                  .value();
  const json::value config = parse_json(R"({"max_position_embeddings": 4096})", "config").value();
  const auto expected = read_rope_object(JsonReader(scaling.get_object(), "rope"),
                                         JsonReader(config.get_object(), "config"), 16, 1e4);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_EQ(good(builder).ropes.at(0), *expected);
}

// Llama 3.1's factors come as a tensor.
TEST(RopeGguf, FactorsOfEachPair) {
  GgufBuilder builder = small_gguf("llama");
  builder.tensor("token_embd.weight", {64, 10}, 0, 0);
  builder.tensor("rope_freqs.weight", {8}, 0, kEmbeddingBytes);
  std::string bytes = builder.build(kEmbeddingBytes + 32);
  std::string factors;
  for (int i = 0; i < 8; ++i) factors += le(1.0F + static_cast<float>(i));
  bytes.replace(bytes.size() - 32, 32, factors);
  const auto file = GgufFile::parse(testing::bytes_of(bytes), "model.gguf");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto spec = spec_from_gguf(**file);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  const RopeSpec& rope = spec->ropes.at(0);
  ASSERT_EQ(rope.scaling, RopeScaling::kFactors);
  const auto frequencies = rotary_frequencies(rope, 100);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(frequencies[static_cast<std::size_t>(i)],
                    static_cast<float>(std::pow(10000.0, -i / 8.0) / (1.0 + i)));
  }

  bytes.replace(bytes.size() - 4, 4, le(0.0F));
  const auto broken = GgufFile::parse(testing::bytes_of(bytes), "model.gguf");
  ASSERT_TRUE(broken.ok());
  testing::expect_error(spec_from_gguf(**broken), StatusCode::kBadModel, {"model.gguf", "factors"});
}

TEST(GgufSpec, WindowsAndScales) {
  GgufBuilder mistral = small_gguf("llama");
  mistral.u32("llama.attention.sliding_window", 99);
  EXPECT_EQ(good(mistral).layers.at(3).attention().window, 99);
  EXPECT_EQ(good(small_gguf("llama")).layers.at(3).attention().window, 0);
  EXPECT_EQ(good(small_gguf("llama")).rope_style, RopeStyle::kInterleaved);
  EXPECT_EQ(good(small_gguf("qwen3")).rope_style, RopeStyle::kHalves);

  GgufBuilder gemma = small_gguf("gemma3");
  gemma.u32("gemma3.attention.sliding_window", 512).u32("gemma3.attention.key_length", 32);
  f32(gemma, "gemma3.rope.freq_base", 1e6F);
  const DecoderSpec spec = good(gemma);
  EXPECT_EQ(spec.layers.at(4).attention().window, 512);
  EXPECT_EQ(spec.layers.at(4).attention().rope, 1);
  EXPECT_EQ(spec.layers.at(5).attention().window, 0);
  EXPECT_EQ(spec.layers.at(5).attention().rope, 0);
  EXPECT_EQ(spec.ropes.at(0).theta, 1e6);
  EXPECT_EQ(spec.ropes.at(1).theta, 1e4);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 1.0 / std::sqrt(32.0));
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 8.0);
  EXPECT_EQ(spec.norm.weight_offset, 0.0);
}

// The sizes whose scale of scores no key says.
TEST(GgufSpec, LargestGemmasAreKnownByTheirLayers) {
  for (const auto& [architecture, layers, scale] :
       {std::tuple{"gemma2", 46, 1.0 / 12.0}, {"gemma3", 62, 1.0 / std::sqrt(168.0)}}) {
    GgufBuilder builder;
    builder.text("general.architecture", architecture);
    const std::string prefix = std::string(architecture) + ".";
    for (const auto& [name, value] : {std::pair<std::string, std::uint32_t>{"block_count", layers},
                                      {"embedding_length", 64},
                                      {"feed_forward_length", 32},
                                      {"attention.head_count", 4},
                                      {"attention.key_length", 16},
                                      {"attention.sliding_window", 8},
                                      {"context_length", 4096}}) {
      builder.u32(prefix + name, value);
    }
    f32(builder, prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
    EXPECT_DOUBLE_EQ(good(builder).attention().scale, scale) << architecture;
  }
}

// Routing that a file does not use is written as 0 by some converters.
TEST(GgufSpec, ZerosOfRoutingSayNothing) {
  GgufBuilder builder = small_gguf("deepseek2");
  for (const auto& [name, value] : {std::pair<std::string, std::uint32_t>{"expert_count", 8},
                                    {"expert_used_count", 2},
                                    {"expert_feed_forward_length", 32},
                                    {"expert_shared_count", 1},
                                    {"expert_group_count", 0},
                                    {"expert_group_used_count", 0},
                                    {"leading_dense_block_count", 1},
                                    {"rope.dimension_count", 8},
                                    {"attention.kv_lora_rank", 16},
                                    {"attention.key_length", 24},
                                    {"attention.value_length", 16}}) {
    builder.u32("deepseek2." + name, value);
  }
  f32(builder, "deepseek2.expert_weights_scale", 0.0F);
  const DecoderSpec spec = good(builder);
  EXPECT_EQ(spec.layers.at(0).moe(), nullptr);
  ASSERT_NE(spec.layers.at(1).moe(), nullptr);
  EXPECT_EQ(spec.layers.at(1).moe()->routing.weight_scale, 1.0F);
  EXPECT_EQ(spec.layers.at(1).moe()->routing.num_groups, 1);
  // The older form: heads as they are, and what they are made of in one matrix.
  ASSERT_NE(spec.layers.at(1).latent_attention(), nullptr);
  EXPECT_EQ(spec.layers.at(1).latent_attention()->key_dims, 16);
  EXPECT_FALSE(spec.layers.at(1).latent_attention()->split_up);
}

TEST(GgufSpec, RefusedByName) {
  const auto refused = [](GgufBuilder builder, StatusCode code, const std::string& named) {
    testing::expect_error(spec_of(std::move(builder)), code, {"model.gguf", named});
  };
  constexpr auto kCode = StatusCode::kUnimplemented;
  refused(small_gguf("llama").text("llama.rope.scaling.type", "dynamic"), kCode, "dynamic");
  refused(small_gguf("phi3").text("phi3.rope.scaling.type", "longrope"), StatusCode::kBadModel,
          "rope_factors_short.weight");
  refused(small_gguf("qwen2").u32("qwen2.expert_count", 8), kCode, "qwen2.expert_count");
  refused(small_gguf("llama")
              .u32("llama.expert_count", 8)
              .u32("llama.expert_used_count", 2)
              .u32("llama.expert_gating_func", 2),
          kCode, "llama.expert_gating_func = 2");
  refused(small_gguf("llama").u32("llama.rope.dimension_count", 8), kCode,
          "partial_rotary_factor = 0.5");
  refused(small_gguf("llama").u32("llama.attention.value_length", 8), kCode,
          "llama.attention.value_length");
  refused(small_gguf("qwen2").u32("qwen2.attention.sliding_window", 64), kCode,
          "qwen2.attention.sliding_window");
  for (const std::string name : {"logit_scale", "residual_scale", "embedding_scale",
                                 "attention.scale", "rope.scaling.yarn_log_multiplier"}) {
    GgufBuilder builder = small_gguf("gemma3");
    refused(f32(builder, "gemma3." + name, 30.0F), kCode, "gemma3." + name);
  }
  refused(small_gguf("gemma3"), StatusCode::kBadModel, "sliding_window");
  refused(small_gguf("gemma3").u32("gemma3.attention.sliding_window_pattern", 0),
          StatusCode::kBadModel, "sliding_window_pattern");
  refused(small_gguf("llama").text("llama.block_count_", "x").u32("llama.attention.key_length", 7),
          StatusCode::kBadModel, "head_dim");
  refused(small_gguf("codeshell"), StatusCode::kBadModel, "\"codeshell\"");
}

}  // namespace rope_config_test
}  // namespace quire
