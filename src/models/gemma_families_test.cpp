// What Gemma 2 and Gemma 4 read from config.json.
#include <variant>

#include <gtest/gtest.h>

#include "models/families_test_support.h"

namespace quire::families_test {
namespace {

TEST(Families, Gemma2HasSoftCapsAndAlternatingWindows) {
  const DecoderSpec spec = good("Gemma2ForCausalLM", R"({"query_pre_attn_scalar": 144})");
  EXPECT_EQ(spec.attention().soft_cap, 50.0);
  EXPECT_EQ(spec.logit_soft_cap, 30.0);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 1.0 / 12);
  EXPECT_EQ(spec.layers[0].attention().window, 4096);
  EXPECT_EQ(spec.layers[1].attention().window, 0);
  EXPECT_EQ(spec.layers[2].attention().window, 4096);
  EXPECT_EQ(spec.ropes.size(), 1U);
  EXPECT_EQ(spec.layers[1].norms, NormPlacement::kAround);
  EXPECT_EQ(spec.attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_DOUBLE_EQ(spec.norm.weight_offset, 1.0);
  const DecoderSpec said = good("Gemma2ForCausalLM", R"({"attn_logit_softcapping": 10.0,
      "final_logit_softcapping": null, "sliding_window": 9, "layer_types": ["full_attention",
      "full_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(said.attention().soft_cap, 10.0);
  EXPECT_EQ(said.logit_soft_cap, 0.0);
  EXPECT_EQ(said.layers[0].attention().window, 0);
  EXPECT_EQ(said.layers[3].attention().window, 9);
  expect_refused("Gemma2ForCausalLM", R"({"attn_logit_softcapping": -1})", StatusCode::kBadModel,
                 "soft cap");
  // Where a family has none they stay refused, and Gemma 3 may have them.
  expect_refused("LlamaForCausalLM", R"({"final_logit_softcapping": 30.0})",
                 StatusCode::kUnimplemented, "final_logit_softcapping");
  EXPECT_EQ(good("Gemma3ForCausalLM", R"({"final_logit_softcapping": 9.0})").logit_soft_cap, 9.0);
  EXPECT_EQ(good("Gemma3ForCausalLM").attention().soft_cap, 0.0);
}

// As published: sizes of the wide heads beside the others.
constexpr std::string_view kGemma4 = R"({"num_hidden_layers": 6, "head_dim": 16,
    "global_head_dim": 32, "attention_k_eq_v": true, "num_global_key_value_heads": 1,
    "sliding_window": 9, "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
    "full_attention", "sliding_attention", "sliding_attention"], "num_kv_shared_layers": 3,
    "use_double_wide_mlp": true, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 120,
    "final_logit_softcapping": 30.0, "use_bidirectional_attention": "vision")";

std::string gemma4(std::string_view more = "") {
  return std::string(kGemma4) + std::string(more) + "}";
}

TEST(Families, Gemma4HasHeadsOfTwoSizes) {
  const DecoderSpec spec = good("Gemma4ForCausalLM", gemma4());
  const AttentionSpec& narrow = spec.layers[0].attention();
  const AttentionSpec& wide = spec.layers[1].attention();
  EXPECT_EQ(narrow.head_dim, 16);
  EXPECT_EQ(narrow.num_kv_heads, 2);
  EXPECT_EQ(narrow.window, 9);
  EXPECT_FALSE(narrow.values_are_keys);
  EXPECT_EQ(wide.head_dim, 32);
  EXPECT_EQ(wide.num_kv_heads, 1);
  EXPECT_EQ(wide.window, 0);
  EXPECT_TRUE(wide.values_are_keys);
  EXPECT_EQ(narrow.scale, 1.0);
  EXPECT_TRUE(narrow.value_norm);
  EXPECT_EQ(spec.layers[5].attention().window, 0) << "the last layer sees all keys";
  EXPECT_EQ(spec.logit_soft_cap, 30.0);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 32);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kProportional);
  EXPECT_EQ(spec.ropes[0].turning_pairs, 4);
  EXPECT_EQ(spec.ropes[0].theta, 1e6);
  EXPECT_EQ(spec.ropes[1].rotary_dim, 16);
  EXPECT_EQ(spec.ropes[1].theta, 1e4);
  EXPECT_TRUE(spec.layers[0].output_scale);
  // Later files have an object for each layer instead.
  const DecoderSpec by_layer = good("Gemma4ForCausalLM", gemma4(R"(, "global_head_dim": null,
      "num_global_key_value_heads": null, "per_layer_config": {
      "1": {"head_dim": 48, "num_key_value_heads": 4}, "3": {"head_dim": 48,
      "num_key_value_heads": 4}, "5": {"head_dim": 48, "num_key_value_heads": 4}})"));
  EXPECT_EQ(by_layer.layers[3].attention().head_dim, 48);
  EXPECT_EQ(by_layer.layers[3].attention().num_kv_heads, 4);
  EXPECT_EQ(by_layer.layers[2].attention().head_dim, 16);
  const StatusCode code = StatusCode::kUnimplemented;
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "per_layer_config": {"1": {"head_dim": 48}})"),
                 code, "per_layer_config: 3");
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "per_layer_config": {"0": {"hidden_size": 48}})"),
                 code, "hidden_size");
}

TEST(Families, Gemma4sLastLayersReadTheKeysOfOthers) {
  const DecoderSpec spec = good("Gemma4ForCausalLM", gemma4());
  EXPECT_EQ(spec.layers[2].attention().kv_layer, kOwnKeys);
  EXPECT_EQ(spec.layers[3].attention().kv_layer, 1);
  EXPECT_EQ(spec.layers[4].attention().kv_layer, 2);
  EXPECT_EQ(spec.layers[5].attention().kv_layer, 1);
  EXPECT_EQ(spec.layers[2].intermediate_size(), 96);
  EXPECT_EQ(spec.layers[3].intermediate_size(), 192);
  const auto lists = [&](std::int64_t layer, TensorRole role) {
    return std::ranges::count(spec.layer_tensors(layer), role, &TensorShape::role);
  };
  EXPECT_EQ(lists(0, TensorRole::kValue), 1);
  EXPECT_EQ(lists(1, TensorRole::kKey), 1);
  EXPECT_EQ(lists(1, TensorRole::kValue), 0);
  EXPECT_EQ(lists(4, TensorRole::kKey), 0);
  EXPECT_EQ(lists(4, TensorRole::kKeyNorm), 0);
  EXPECT_EQ(lists(4, TensorRole::kQueryNorm), 1);
  EXPECT_TRUE(spec.is_unread("model.layers.4.self_attn.v_proj.weight"));
  EXPECT_TRUE(spec.is_unread("model.layers.4.self_attn.k_norm.weight"));
  EXPECT_FALSE(spec.is_unread("model.layers.2.self_attn.k_norm.weight"));
  EXPECT_EQ(spec.kv_elements_per_token(), 2 * (2 * 2 * 16 + 32));
  const StatusCode bad = StatusCode::kBadModel;
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "num_kv_shared_layers": 6)"), bad,
                 "num_kv_shared_layers is 6");
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "num_kv_shared_layers": 5)"), bad,
                 "layer 1 shares the keys");
}

TEST(Families, Gemma4HasAnEmbeddingForEachLayer) {
  const DecoderSpec spec = good("Gemma4ForCausalLM", gemma4());
  EXPECT_EQ(spec.per_layer.width, 8);
  EXPECT_TRUE(has(spec, TensorRole::kPerLayerEmbedding));
  EXPECT_TRUE(has(spec, TensorRole::kPerLayerGate));
  EXPECT_TRUE(has(spec, TensorRole::kLayerScale));
  const DecoderSpec without =
      good("Gemma4ForCausalLM", gemma4(R"(, "hidden_size_per_layer_input": 0)"));
  EXPECT_FALSE(has(without, TensorRole::kPerLayerEmbedding));
  EXPECT_FALSE(has(without, TensorRole::kPerLayerGate));
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "vocab_size_per_layer_input": 50)"),
                 StatusCode::kBadModel, "per-layer embeddings of 50 tokens");
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "enable_moe_block": true)"),
                 StatusCode::kUnimplemented, "enable_moe_block");
  expect_refused("Gemma4ForCausalLM", gemma4(R"(, "use_bidirectional_attention": "all")"),
                 StatusCode::kUnimplemented, "use_bidirectional_attention");
}

}  // namespace
}  // namespace quire::families_test
