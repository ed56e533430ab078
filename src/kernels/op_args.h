// The arguments of every device's ops: plain data. Where a pointer is not said to be the host's, it
// is into the memory of the device that the op runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/span_recorder.h"
#include "kernels/packed_weight.h"
#include "kernels/row_args.h"

namespace quire {

// How weights of a quantized layout see the activations. Unless the mode is kFloat32, those of
// bfloat16 see them rounded to bfloat16 at levels where that is the fastest way, if no part of the
// call is float32 or float16; these always see float32.
enum class ActivationMode : std::uint8_t {
  kFloat32,  // weights are expanded in registers; exact up to float32 rounding
  // Each group of 32 inputs of a row is rounded to int8 with a float32 scale (amax / 127, nearest
  // even), as the encodings' own reference does. Everywhere, it moved the best token of
  // SmolLM2-135M at 55 of 2,560 positions, across gaps of up to 0.67 between the logits
  // (docs/performance.md). Where that saves nothing (8-bit weights at a level without a dot product
  // of bytes) it is kInt16.
  kInt8,
  // The same with 16 bits (amax / 32639); products and their sums are integers as well. Weights of
  // eight bits are no finer than inputs of eight, and have those at levels with a dot product of
  // bytes.
  kInt16
};

// The stage of a product that nobody named.
inline constexpr Stage kMatmulStage = {StageKind::kKernel, "matmul"};

// One product that shares its input with others: out[r][n] (+)= sum_k x[r][k] w[n][k] (+ bias[n]).
struct MatmulPart {
  const PackedWeight* weight = nullptr;
  float* out = nullptr;         // [rows][out_stride]
  std::int64_t out_stride = 0;  // in floats, >= weight->outputs()
  const float* bias = nullptr;  // [outputs] or nullptr
  bool accumulate = false;      // add to the contents of `out` (residual connections)
};

// What an MLP does to its gate, or to its only projection.
enum class Activation : std::uint8_t {
  kSilu,  // of gated MLPs alone
  // The tanh form of GELU (Hendrycks and Gimpel 2016): x / 2 * (1 + tanh(sqrt(2 / pi) * (x +
  // 0.044715 x^3))).
  kGeluTanh,
  // The others are of MLPs without a gate alone.
  kGelu,  // x / 2 * (1 + erf(x / sqrt(2))), the same paper's
  kRelu,  // max(x, 0)
  kRelu2  // max(x, 0)^2 (So et al. 2021)
};

// A factor of queries that grows with their position p, so that those of long sequences stay as
// sharp: 1 + growth log(1 + floor((p + offset) / interval)) (Nakanishi 2025, scalable softmax).
struct PositionScale {
  float growth = 0.0F;
  float interval = 1.0F;  // above 0
  std::int32_t offset = 0;

  bool operator==(const PositionScale&) const = default;
};

// The two products of a gated MLP (Shazeer 2020), of the same inputs and outputs.
struct GatedProducts {
  const PackedWeight* gate = nullptr;
  const PackedWeight* up = nullptr;
  const float* gate_bias = nullptr;  // [outputs] or nullptr
  const float* up_bias = nullptr;    // [outputs] or nullptr
  Activation activation = Activation::kSilu;
  std::optional<ClampedGate> clamped = {};  // instead of `activation` and the product with `up`
};

// A product for each head of every row: out[r][h] = W_h x[r][h]. In front of its outputs a head may
// have numbers of x[r][h] as they are: those that follow what W_h reads.
struct HeadProducts {
  std::span<const PackedWeight> weights;  // of each head, all of the same sizes
  const float* x = nullptr;               // [rows][x_stride], heads x_head_stride apart
  std::int64_t x_stride = 0;
  std::int64_t x_head_stride = 0;
  std::int64_t copied = 0;  // numbers in front of the outputs
  float* out = nullptr;     // [rows][out_stride], heads out_head_stride apart
  std::int64_t out_stride = 0;
  std::int64_t out_head_stride = 0;
};

// What a router makes of its logits.
enum class RouterScore : std::uint8_t {
  kSoftmax,  // over all experts
  kSigmoid   // of each on its own (DeepSeek-AI 2024, DeepSeek-V3)
};

// What a group of experts is chosen by.
enum class GroupRank : std::uint8_t {
  kBest,         // its best expert's score (DeepSeek-AI 2024, DeepSeek-V2)
  kSumOfTwoBest  // (DeepSeek-V3); of groups of two or more
};

// How a mixture of experts chooses and weighs.
struct Routing {
  RouterScore score = RouterScore::kSoftmax;
  // The weights of a row's experts are divided by their sum, or by `min_weight_sum` where that is
  // larger. Else they are the experts' scores.
  bool weights_sum_to_one = false;
  float min_weight_sum = 0.0F;
  float weight_scale = 1.0F;  // of the weights, at last
  // Experts lie in num_groups groups of as many each, one after the other. A row goes to experts of
  // its best `groups_per_row` groups alone.
  std::int32_t num_groups = 1;
  std::int32_t groups_per_row = 1;
  GroupRank group_rank = GroupRank::kBest;

  bool operator==(const Routing&) const = default;
};

// Chooses the experts of each row, of a mixture of experts (Shazeer et al. 2017): those with the
// largest scores, a bias added, the lower expert and the lower group first among equals, best
// first. Their weights are made of the scores without the bias (Wang et al. 2024, "Auxiliary-loss-
// free load balancing"). All in float32.
struct RouteArgs {
  float* logits = nullptr;  // [rows][num_experts]; scratch, once the call has read them
  std::int64_t rows = 0;
  std::int64_t num_experts = 0;
  std::int64_t experts_per_row = 0;
  Routing routing = {};
  const float* choice_bias = nullptr;  // [num_experts], finite, or nullptr
  std::int32_t* experts = nullptr;     // [rows][experts_per_row]
  float* weights = nullptr;            // [rows][experts_per_row]
};

// Streams of hidden states that a token may have (AltUpArgs).
inline constexpr std::int64_t kMaxStreams = 8;

// Alternating updates (Baykal et al. 2023, AltUp): a token has several hidden states, its streams,
// of which a layer computes one, the active one. How the others follow from it is a matter of the
// token's modalities m[k] = tanh(router_scale router[k]) and of a layer's few numbers.
struct AltUpArgs {
  std::int64_t num_streams = 0;  // 2 to kMaxStreams
  std::int64_t active = 0;
  float* streams = nullptr;       // [num_streams][rows][cols]
  const float* router = nullptr;  // [rows][num_streams]
  float router_scale = 1.0F;
  // predict_streams(): [num_streams][num_streams][num_streams]; correct_streams(): [num_streams]
  // [num_streams]. The last index is that of a modality.
  const float* weight = nullptr;
};

// The matrices of one expert, a gated MLP.
struct ExpertWeights {
  PackedWeight gate;
  PackedWeight up;
  PackedWeight down;
};

// The experts of a layer, all of the same sizes, and which rows go to which of them.
struct ExpertProducts {
  std::span<const ExpertWeights> experts;
  // Of all experts, one after the other: [num_experts][outputs] or nullptr.
  const float* gate_biases = nullptr;
  const float* up_biases = nullptr;
  const float* down_biases = nullptr;
  Activation activation = Activation::kSilu;
  std::optional<ClampedGate> clamped = {};  // as in GatedProducts
  ActivationMode gate_up_mode = ActivationMode::kFloat32;
  ActivationMode down_mode = ActivationMode::kFloat32;
  std::int64_t experts_per_row = 0;
  const std::int32_t* chosen = nullptr;  // [rows][experts_per_row], as route() gives them
  const float* weights = nullptr;        // [rows][experts_per_row]
  bool weigh_inputs = false;  // a weight is of what goes into the expert, else of what comes out
};

}  // namespace quire
