// What configurations of the families of GPT's time turn into, and what is refused.
#include <gtest/gtest.h>

#include "models/families_test_support.h"

namespace quire::families_test {
namespace {

constexpr StatusCode kRefused = StatusCode::kUnimplemented;

Activation activation_of(const DecoderSpec& spec) {
  return std::get<PlainMlpSpec>(spec.layers.at(0).feed_forward).activation;
}

TEST(ClassicFamilies, Gpt2HasLearnedPositionsAndMatricesTheOtherWayRound) {
  const std::string_view name = "GPT2LMHeadModel";
  const DecoderSpec spec = good(name, R"({"hidden_size": null, "n_embd": 128, "n_head": 8,
      "n_layer": 3, "n_positions": 99, "n_inner": null})");
  EXPECT_EQ(spec.max_position_embeddings, 99);
  EXPECT_EQ(spec.attention().num_kv_heads, 8);
  EXPECT_EQ(spec.attention().rope, kNoRope);
  EXPECT_EQ(spec.layers[0].intermediate_size(), 512);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_EQ(activation_of(spec), Activation::kGeluTanh);
  std::vector<std::int64_t> positions;
  for (const TensorShape& tensor : spec.tensors()) {
    if (tensor.role == TensorRole::kPositions) positions = tensor.sizes;
  }
  EXPECT_EQ(positions, (std::vector<std::int64_t>{99, 128}));
  for (const TensorShape& tensor : spec.layer_tensors(0)) {
    const std::vector<std::int64_t> stored = {128, 512};
    if (tensor.role != TensorRole::kUp) continue;
    EXPECT_EQ(tensor.sizes, stored);
  }
  EXPECT_TRUE(has(spec, TensorRole::kQueryKeyValueBias));
  EXPECT_DOUBLE_EQ(spec.layers[1].attention().scale, 0.25);
  EXPECT_DOUBLE_EQ(good(name, R"({"scale_attn_weights": false})").attention().scale, 1.0);
  const DecoderSpec by_layer = good(name, R"({"scale_attn_by_inverse_layer_idx": true})");
  EXPECT_DOUBLE_EQ(by_layer.layers[2].attention().scale, 0.25 / 3);
  expect_refused(name, R"({"add_cross_attention": true})", kRefused, "add_cross_attention");
}

TEST(ClassicFamilies, OptCountsPositionsFromRowTwo) {
  const std::string_view name = "OPTForCausalLM";
  const DecoderSpec spec = good(name, R"({"ffn_dim": 200, "word_embed_proj_dim": 64})");
  EXPECT_EQ(spec.positions.kind, PositionKind::kLearned);
  EXPECT_EQ(spec.positions.offset, 2);
  EXPECT_EQ(spec.tensors()[1].sizes, (std::vector<std::int64_t>{514, 64}));
  EXPECT_EQ(spec.layers[0].intermediate_size(), 200);
  EXPECT_EQ(activation_of(spec), Activation::kRelu);
  EXPECT_TRUE(has(spec, TensorRole::kKeyBias));
  EXPECT_TRUE(has(spec, TensorRole::kDownBias));
  const DecoderSpec plain = good(name, R"({"enable_bias": false,
      "layer_norm_elementwise_affine": false, "activation_function": "gelu"})");
  EXPECT_FALSE(has(plain, TensorRole::kKeyBias));
  EXPECT_FALSE(has(plain, TensorRole::kInputNorm));
  EXPECT_EQ(activation_of(plain), Activation::kGelu);
  expect_refused(name, R"({"do_layer_norm_before": false})", kRefused, "do_layer_norm_before");
  expect_refused(name, R"({"word_embed_proj_dim": 32})", kRefused, "word_embed_proj_dim");
  expect_refused(name, R"({"_remove_final_layer_norm": true})", kRefused,
                 "_remove_final_layer_norm");
}

TEST(ClassicFamilies, BloomNormsEmbeddingsAndHasBiasesByDistance) {
  const std::string_view name = "BloomForCausalLM";
  const DecoderSpec spec = good(name, R"({"n_head": 8, "n_layer": 2, "n_embed": 96,
      "pretraining_tp": 4, "seq_length": 1024})");
  EXPECT_EQ(spec.hidden_size, 96);
  EXPECT_EQ(spec.num_layers(), 2);
  EXPECT_EQ(spec.max_position_embeddings, 1024);
  EXPECT_EQ(good(name).max_position_embeddings, 2048);
  EXPECT_TRUE(has(spec, TensorRole::kEmbeddingNormBias));
  EXPECT_EQ(spec.attention().alibi_slopes, alibi_slopes(8, 8));
  EXPECT_TRUE(spec.attention().fused_by_head);
  EXPECT_EQ(spec.layers[0].intermediate_size(), 384);
  EXPECT_TRUE(spec.ropes.empty());
  expect_refused(name, R"({"apply_residual_connection_post_layernorm": true})", kRefused,
                 "apply_residual_connection_post_layernorm");
  expect_refused(name, R"({"pretraining_tp": 4, "slow_but_exact": true})", kRefused,
                 "slow_but_exact");
}

TEST(ClassicFamilies, MptHasNoBiasesButThoseByDistance) {
  const std::string_view name = "MptForCausalLM";
  const DecoderSpec spec = good(name, R"({"d_model": 96, "n_heads": 6, "n_layers": 2,
      "max_seq_len": 777, "attn_config": {"clip_qkv": 6.0, "alibi_bias_max": 16,
      "softmax_scale": 0.5, "qk_ln": false}})");
  EXPECT_EQ(spec.hidden_size, 96);
  EXPECT_EQ(spec.max_position_embeddings, 777);
  EXPECT_EQ(spec.attention().alibi_slopes, alibi_slopes(6, 16));
  EXPECT_DOUBLE_EQ(spec.attention().qkv_limit, 6.0);
  EXPECT_DOUBLE_EQ(spec.attention().scale, 0.5);
  EXPECT_FALSE(has(spec, TensorRole::kInputNormBias));
  EXPECT_FALSE(has(spec, TensorRole::kUpBias));
  EXPECT_EQ(activation_of(spec), Activation::kGelu);
  EXPECT_EQ(good("MPTForCausalLM").attention().alibi_slopes, alibi_slopes(4, 8));
  for (const std::string_view key : {"prefix_lm", "qk_ln", "attn_uses_sequence_id", "rope"}) {
    expect_refused(name, R"({"attn_config": {")" + std::string(key) + R"(": true}})", kRefused,
                   key);
  }
  expect_refused(name, R"({"attn_config": {"alibi": false}})", kRefused, "alibi");
  expect_refused(name, R"({"attn_config": {"alibi_bias_max": 0}})", StatusCode::kBadModel,
                 "alibi_bias_max");
  expect_refused(name, R"({"attn_config": {"attn_type": "multiquery_attention"}})", kRefused,
                 "attn_type");
  expect_refused(name, R"({"no_bias": false})", kRefused, "no_bias");
  expect_refused(name, R"({"logit_scale": "inv_sqrt_d_model"})", kRefused, "logit_scale");
  expect_refused(name, R"({"norm_type": "rmsnorm"})", kRefused, "norm_type");
  expect_refused(name, R"({"expansion_ratio": 3})", kRefused, "expansion_ratio");
}

TEST(ClassicFamilies, FalconHasThreeForms) {
  const std::string_view name = "FalconForCausalLM";
  const DecoderSpec first = good(name, R"({"num_kv_heads": 4})");  // 7B
  EXPECT_EQ(first.attention().num_kv_heads, 1);
  EXPECT_FALSE(first.attention().fused_by_head);
  EXPECT_TRUE(first.layers[0].parallel);
  EXPECT_FALSE(first.layers[0].two_norms);
  EXPECT_FALSE(has(first, TensorRole::kUpBias));
  EXPECT_EQ(first.ropes.size(), 1U);
  const DecoderSpec grouped = good(name, R"({"new_decoder_architecture": true, "num_kv_heads": 2,
      "ffn_hidden_size": 100})");  // 40B
  EXPECT_EQ(grouped.attention().num_kv_heads, 2);
  EXPECT_TRUE(grouped.attention().fused_by_head);
  EXPECT_TRUE(grouped.layers[0].two_norms);
  EXPECT_EQ(grouped.layers[0].intermediate_size(), 100);
  EXPECT_EQ(grouped.names.name(TensorRole::kMlpNorm, 1), "transformer.h.1.ln_mlp.weight");
  const DecoderSpec one_norm = good(name, R"({"new_decoder_architecture": true, "num_kv_heads": 2,
      "num_ln_in_parallel_attn": 1})");  // 11B
  EXPECT_FALSE(one_norm.layers[0].two_norms);
  EXPECT_EQ(one_norm.names.name(TensorRole::kInputNorm, 1),
            "transformer.h.1.input_layernorm.weight");
  const DecoderSpec biased = good(name, R"({"alibi": true, "multi_query": false,
      "parallel_attn": false, "bias": true})");  // RW
  EXPECT_EQ(biased.attention().num_kv_heads, 4);
  EXPECT_FALSE(biased.layers[0].parallel);
  EXPECT_TRUE(biased.ropes.empty());
  // Of 2^-2, 2^-4, ..., times the scale of heads of 16.
  EXPECT_FLOAT_EQ(biased.attention().alibi_slopes[1], 0x1p-6F);
  EXPECT_TRUE(has(biased, TensorRole::kQueryKeyValueBias));
  expect_refused(name, R"({"new_decoder_architecture": true, "parallel_attn": false})", kRefused,
                 "parallel_attn");
  expect_refused(name, R"({"num_ln_in_parallel_attn": 2})", kRefused, "num_ln_in_parallel_attn");
}

TEST(ClassicFamilies, XglmComputesItsPositions) {
  const std::string_view name = "XGLMForCausalLM";
  const DecoderSpec spec = good(name, R"({"d_model": 36, "attention_heads": 3, "num_layers": 2,
      "ffn_dim": 50})");
  EXPECT_EQ(spec.positions.kind, PositionKind::kSinusoidal);
  EXPECT_EQ(spec.positions.offset, 2);
  EXPECT_DOUBLE_EQ(spec.embedding_scale, 6.0);
  EXPECT_EQ(spec.layers[0].intermediate_size(), 50);
  EXPECT_FALSE(has(spec, TensorRole::kPositions));
  EXPECT_EQ(spec.computed_bytes(10).main, 10U * 36 * 4);
  EXPECT_DOUBLE_EQ(good(name, R"({"scale_embedding": false})").embedding_scale, 1.0);
  expect_refused(name, R"({"add_cross_attention": true})", kRefused, "add_cross_attention");
}

}  // namespace
}  // namespace quire::families_test
