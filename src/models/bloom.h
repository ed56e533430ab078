// BLOOM (BigScience 2022): linear biases instead of positions, a norm of the embeddings, layer
// norms, an MLP without a gate.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "models/gguf_form.h"
#include "models/spec.h"

namespace quire {

// Falcon has these, too, but for the norm of the embeddings.
inline constexpr TensorName kBloomTensorNames[] = {
    {TensorRole::kEmbedding, "transformer.word_embeddings.weight"},
    {TensorRole::kEmbeddingNorm, "transformer.word_embeddings_layernorm.weight"},
    {TensorRole::kEmbeddingNormBias, "transformer.word_embeddings_layernorm.bias"},
    {TensorRole::kFinalNorm, "transformer.ln_f.weight"},
    {TensorRole::kFinalNormBias, "transformer.ln_f.bias"},
    {TensorRole::kOutput, "lm_head.weight"},
    {TensorRole::kInputNorm, "transformer.h.{layer}.input_layernorm.weight"},
    {TensorRole::kInputNormBias, "transformer.h.{layer}.input_layernorm.bias"},
    {TensorRole::kQueryKeyValue, "transformer.h.{layer}.self_attention.query_key_value.weight"},
    {TensorRole::kQueryKeyValueBias, "transformer.h.{layer}.self_attention.query_key_value.bias"},
    {TensorRole::kAttentionOutput, "transformer.h.{layer}.self_attention.dense.weight"},
    {TensorRole::kAttentionBias, "transformer.h.{layer}.self_attention.dense.bias"},
    {TensorRole::kMlpNorm, "transformer.h.{layer}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "transformer.h.{layer}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "transformer.h.{layer}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, "transformer.h.{layer}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "transformer.h.{layer}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, "transformer.h.{layer}.mlp.dense_4h_to_h.bias"},
};

Result<DecoderSpec> bloom_from_config(const JsonReader& config);
extern const GgufForm kBloomGguf;

}  // namespace quire
