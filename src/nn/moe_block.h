// A mixture of gated MLPs in one decoder layer (Shazeer et al. 2017; Fedus et al. 2022), residual
// included: a router chooses some experts for each token, and what they make of it is added with
// the router's weights. A shared expert, where there is one, sees every token, and its result may
// go through a gate of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/packed_weight.h"
#include "nn/forward_context.h"
#include "nn/residual.h"

namespace quire {

struct MoeShape {
  std::int64_t hidden_size = 0;
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t shared_size = 0;  // of the shared expert; 0: there is none
  bool shared_gate = false;      // its result goes through one
  Activation activation = Activation::kSilu;
  Routing routing = {};
  std::optional<ClampedGate> clamped = {};
  bool weigh_inputs = false;
};

struct MoeWeights {
  PackedWeight router;            // [num_experts][hidden_size]
  DeviceFloats router_bias = {};  // [num_experts] or empty
  std::vector<ExpertWeights> experts;
  bool distant = false;  // experts and their biases are ForwardContext::distant_experts'
  // Of all experts, one after the other; or empty.
  DeviceFloats gate_biases = {};
  DeviceFloats up_biases = {};
  DeviceFloats down_biases = {};
  std::optional<ExpertWeights> shared = {};
  PackedWeight shared_gate;  // [1][hidden_size]
  DeviceFloats choice_bias;  // [num_experts], or empty
};

class MoeBlock {
 public:
  MoeBlock(const MoeShape& shape, MoeWeights weights);

  static std::uint64_t arena_bytes(const MoeShape& shape, std::int64_t rows);

  // x: [num_tokens][hidden_size].
  void forward(ForwardContext& ctx, const float* x, const Residual& residual) const;

 private:
  // sum += what the shared expert makes of x.
  void add_shared(ForwardContext& ctx, const float* x, float* sum) const;

  MoeShape shape_;
  MoeWeights weights_;
};

}  // namespace quire
