// What Gemma 2, 3n and 4 read from config.json.
#include <cmath>
#include <string>
#include <variant>

#include <fmt/format.h>
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

// As published, with all sizes smaller.
constexpr std::string_view kGemma3n = R"({"num_hidden_layers": 12, "head_dim": 16,
    "intermediate_size": [96, 96, 96, 96, 96, 96, 96, 96, 96, 96, 96, 80], "sliding_window": 9,
    "num_kv_shared_layers": 4, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 90,
    "laurel_rank": 6, "altup_coef_clip": 120.0)";

std::string gemma3n(std::string_view more = "") {
  return std::string(kGemma3n) + std::string(more) + "}";
}

TEST(Families, Gemma3nHasStreamsAndResidualsOfLowRank) {
  const DecoderSpec spec = good("Gemma3nForCausalLM", gemma3n());
  EXPECT_EQ(spec.altup.num_streams, 4);
  EXPECT_EQ(spec.altup.active, 0);
  EXPECT_TRUE(has(spec, TensorRole::kAltUpProjections));
  EXPECT_TRUE(has(spec, TensorRole::kAltUpScale));
  EXPECT_EQ(spec.names.name(TensorRole::kAltUpUnembeddings, 0, 2),
            "model.altup_unembed_projections.2.weight");
  EXPECT_EQ(spec.layers[5].laurel_rank, 6);
  EXPECT_EQ(good("Gemma3nForCausalLM", R"({"num_kv_shared_layers": 0})").layers[0].laurel_rank, 64);
  EXPECT_EQ(spec.layers[5].norms, NormPlacement::kAround);
  EXPECT_EQ(spec.norm.weight_offset, 0.0);
  EXPECT_EQ(spec.logit_soft_cap, 30.0);
  EXPECT_EQ(spec.per_layer.width, 8);
  EXPECT_EQ(spec.per_layer.vocab_size, 90) << "fewer tokens than the vocabulary has";
  const DecoderSpec said = good(
      "Gemma3nForCausalLM",
      gemma3n(R"(, "altup_num_inputs": 2, "altup_active_idx": 1, "altup_correct_scale": false)"));
  EXPECT_EQ(said.altup.num_streams, 2);
  EXPECT_EQ(said.altup.active, 1);
  EXPECT_FALSE(has(said, TensorRole::kAltUpScale));
  EXPECT_TRUE(said.is_unread("model.layers.3.altup.correct_output_scale"));
  const StatusCode bad = StatusCode::kBadModel;
  for (const std::string_view number : {"0", "1", "9", "-1"}) {
    expect_refused("Gemma3nForCausalLM",
                   gemma3n(fmt::format(R"(, "altup_num_inputs": {})", number)), bad,
                   "altup_num_inputs");
  }
  expect_refused("Gemma3nForCausalLM", gemma3n(R"(, "altup_active_idx": 4)"), bad,
                 "altup_active_idx is 4");
  expect_refused("Gemma3nForCausalLM", gemma3n(R"(, "laurel_rank": 0)"), bad, "laurel_rank");
}

TEST(Families, Gemma3nsFirstLayersHaveSparseGates) {
  const DecoderSpec spec = good("Gemma3nForCausalLM", gemma3n());
  const auto deviations = [](const DecoderSpec& of, std::size_t layer) {
    const auto* const mlp = std::get_if<SparseMlpSpec>(&of.layers[layer].feed_forward);
    return mlp == nullptr ? -HUGE_VAL : mlp->deviations;
  };
  EXPECT_NEAR(deviations(spec, 0), 1.6448536269514722, 1e-12);
  EXPECT_NEAR(deviations(spec, 9), 1.6448536269514722, 1e-12);
  EXPECT_EQ(deviations(spec, 10), -HUGE_VAL);
  EXPECT_EQ(spec.layers[10].intermediate_size(), 96);
  EXPECT_EQ(spec.layers[11].intermediate_size(), 80);
  const DecoderSpec said = good("Gemma3nForCausalLM", R"({"num_kv_shared_layers": 0,
      "activation_sparsity_pattern": [0.0, 0.5, 0.01, 0.9999999]})");
  EXPECT_EQ(deviations(said, 0), -HUGE_VAL);
  EXPECT_NEAR(deviations(said, 1), 0.0, 1e-12);
  EXPECT_NEAR(deviations(said, 2), -2.3263478740408408, 1e-12);
  EXPECT_NEAR(deviations(said, 3), 5.199337582192, 1e-9);
  EXPECT_EQ(said.layers[3].intermediate_size(), 96);
  // GGUF has the distances.
  const DecoderSpec of_gguf = good("Gemma3nForCausalLM", R"({"num_kv_shared_layers": 0,
      "activation_sparsity_scale": [1.5, 0, 0, 0]})");
  EXPECT_EQ(deviations(of_gguf, 0), 1.5);
  const StatusCode bad = StatusCode::kBadModel;
  for (const std::string_view pattern :
       {"[1.0, 0, 0, 0]", "[-0.5, 0, 0, 0]", "[0.5]", "[null]", R"("0.5")", R"([0, 0, 0, "1"])"}) {
    expect_refused("Gemma3nForCausalLM",
                   fmt::format(R"({{"num_kv_shared_layers": 0,
                       "activation_sparsity_pattern": {}}})",
                               pattern),
                   bad, "activation_sparsity_pattern");
  }
  for (const std::string_view size : {"[]", "[96]", "[96, 96, 96, 0.5]", "[96, 96, 96, 1e300]"}) {
    expect_refused("Gemma3nForCausalLM",
                   fmt::format(R"({{"num_kv_shared_layers": 0, "intermediate_size": {}}})", size),
                   bad, "intermediate_size");
  }
}

TEST(Families, Gemma3nHasWindowsAndSharesTheLastKeysOfEachKind) {
  const DecoderSpec spec = good("Gemma3nForCausalLM", gemma3n());
  EXPECT_EQ(spec.layers[3].attention().window, 9);
  EXPECT_EQ(spec.layers[4].attention().window, 0);
  EXPECT_EQ(spec.layers[4].rope(), 0);
  EXPECT_EQ(spec.layers[3].rope(), 1);
  EXPECT_EQ(spec.ropes[0].theta, 1e6);
  EXPECT_EQ(spec.ropes[1].theta, 1e4);
  EXPECT_EQ(spec.attention().scale, 1.0);
  EXPECT_TRUE(spec.attention().value_norm);
  EXPECT_EQ(spec.layers[7].attention().kv_layer, kOwnKeys);
  EXPECT_EQ(spec.layers[8].attention().kv_layer, 7);
  EXPECT_EQ(spec.layers[9].attention().kv_layer, 4) << "it sees all keys";
  EXPECT_EQ(spec.layers[11].attention().kv_layer, 7);
  EXPECT_TRUE(spec.is_unread("model.layers.9.self_attn.k_norm.weight"));
  expect_refused("Gemma3nForCausalLM", "{}", StatusCode::kBadModel, "num_kv_shared_layers is 15");
  expect_refused("Gemma3nForCausalLM", gemma3n(R"(, "num_kv_shared_layers": -1)"),
                 StatusCode::kBadModel, "num_kv_shared_layers is -1");
}

}  // namespace
}  // namespace quire::families_test
