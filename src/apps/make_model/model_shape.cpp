#include "apps/make_model/model_shape.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {

std::span<const ModelShape> known_shapes() {
  static const std::vector<ModelShape> kShapes = {
      {.name = "smollm-135m",
       .num_layers = 30,
       .hidden_size = 576,
       .intermediate_size = 1536,
       .num_heads = 9,
       .num_kv_heads = 3,
       .vocab_size = 49152,
       .max_position_embeddings = 8192,
       .rope_theta = 100000,
       .tie_word_embeddings = true},
      // The published model ends at 2,048 positions, where a prompt of 2,048 tokens leaves no room
      // for output. Positions have no weights, so nothing else changes with their number.
      {.name = "tinyllama-1.1b",
       .num_layers = 22,
       .hidden_size = 2048,
       .intermediate_size = 5632,
       .num_heads = 32,
       .num_kv_heads = 4,
       .vocab_size = 32000,
       .max_position_embeddings = 16384},
      {.name = "llama-3.2-3b",
       .num_layers = 28,
       .hidden_size = 3072,
       .intermediate_size = 8192,
       .num_heads = 24,
       .num_kv_heads = 8,
       .vocab_size = 128256,
       .max_position_embeddings = 131072,
       .rope_theta = 500000,
       .rope_scaling = {.factor = 32},
       .tie_word_embeddings = true},
      {.name = "llama-3.1-8b",
       .num_layers = 32,
       .hidden_size = 4096,
       .intermediate_size = 14336,
       .num_heads = 32,
       .num_kv_heads = 8,
       .vocab_size = 128256,
       .max_position_embeddings = 131072,
       .rope_theta = 500000,
       .rope_scaling = {.factor = 8}},
      {.name = "qwen3-30b-a3b",
       .num_layers = 48,
       .hidden_size = 2048,
       .intermediate_size = 6144,
       .num_heads = 32,
       .num_kv_heads = 4,
       .vocab_size = 151936,
       .max_position_embeddings = 40960,
       .rope_theta = 1000000,
       .rms_norm_eps = 1e-6,
       .head_size = 128,
       .experts = {.num_experts = 128, .experts_per_token = 8, .intermediate_size = 768}},
      // TinyLlama's layers with 16 experts, of which each is half as wide as its MLP and a token
      // goes to two: a token multiplies by as many weights as in the dense model.
      {.name = "moe-16x1b",
       .num_layers = 22,
       .hidden_size = 2048,
       .intermediate_size = 5632,
       .num_heads = 32,
       .num_kv_heads = 4,
       .vocab_size = 32000,
       .max_position_embeddings = 16384,
       .experts = {.num_experts = 16, .experts_per_token = 2, .intermediate_size = 2816}},
      // The published model's attention, with the MLP of its first layer in all of them: about as
      // many weights as a token of the published one multiplies by.
      {.name = "deepseek-v2-lite-dense",
       .num_layers = 27,
       .hidden_size = 2048,
       .intermediate_size = 10944,
       .num_heads = 16,
       .num_kv_heads = 16,
       .vocab_size = 102400,
       .max_position_embeddings = 163840,
       .rms_norm_eps = 1e-6,
       .latent = {.latent_dims = 512, .rope_dims = 64, .key_dims = 128, .value_dims = 128}},
  };
  return kShapes;
}

Result<ModelShape> find_shape(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelShape& shape : known_shapes()) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
  }
  return Status::invalid_argument(fmt::format("--shape {}: not a known shape", name),
                                  fmt::format("one of: {}", fmt::join(names, ", ")));
}

std::vector<float> rope_frequency_factors(const ModelShape& shape) {
  const ShapeRopeScaling& scaling = shape.rope_scaling;
  if (scaling.factor == 0) return {};
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const auto head_dim = static_cast<double>(shape.head_dim());
  std::vector<float> factors;
  for (std::int64_t i = 0; i < shape.head_dim() / 2; ++i) {
    const double frequency = std::pow(shape.rope_theta, -2.0 * static_cast<double>(i) / head_dim);
    const double turns = original * frequency / (2 * std::numbers::pi);  // in the first context
    double factor = 1;
    if (turns < scaling.low_freq_factor) {
      factor = scaling.factor;
    } else if (turns < scaling.high_freq_factor) {
      const double kept =
          (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
      factor = 1 / ((1 - kept) / scaling.factor + kept);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

}  // namespace quire
