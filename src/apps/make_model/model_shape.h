// The published shapes that `quire bench make-model` fills with random weights, and what of a model
// follows from its shape alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

// Llama 3's way to reach longer contexts (Grattafiori et al. 2024): frequencies below one bound are
// divided by `factor`, those above another kept, those between interpolated.
struct ShapeRopeScaling {
  double factor = 0;  // 0: none
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};

// Experts in place of the MLP of every layer, as Qwen3-MoE has them.
struct ShapeExperts {
  std::int64_t num_experts = 0;  // 0: none
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;  // of one expert
};

// Latent attention, as DeepSeek-V2-Lite has it: queries are made of the input itself.
struct ShapeLatent {
  std::int64_t latent_dims = 0;  // 0: none
  std::int64_t rope_dims = 0;
  std::int64_t key_dims = 0;  // of a head, without those that turn
  std::int64_t value_dims = 0;
};

enum class ShapeFamily : std::uint8_t { kLlama, kQwen3Moe, kDeepseekV2 };

// A decoder of the Llama family; with experts of Qwen3-MoE's, whose heads have norms; with latent
// attention of DeepSeek-V2's, with an MLP in every layer.
struct ModelShape {
  std::string name;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  double rope_theta = 10000;
  ShapeRopeScaling rope_scaling = {};
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  std::int64_t head_size = 0;  // 0: hidden_size / num_heads
  ShapeExperts experts = {};
  ShapeLatent latent = {};

  std::int64_t head_dim() const { return head_size != 0 ? head_size : hidden_size / num_heads; }
  ShapeFamily family() const {
    if (latent.latent_dims != 0) return ShapeFamily::kDeepseekV2;
    return experts.num_experts != 0 ? ShapeFamily::kQwen3Moe : ShapeFamily::kLlama;
  }
};

// smollm-135m, tinyllama-1.1b, llama-3.2-3b, llama-3.1-8b, qwen3-30b-a3b, moe-16x1b,
// deepseek-v2-lite-dense.
std::span<const ModelShape> known_shapes();
// kInvalidArgument naming the known ones.
Result<ModelShape> find_shape(std::string_view name);

// What divides the rotary frequency of each of head_dim / 2 pairs; empty without scaling.
std::vector<float> rope_frequency_factors(const ModelShape& shape);

}  // namespace quire
