// The feed-forward part of a layer with a mixture of experts as data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/op_args.h"
#include "models/tensor_names.h"

namespace quire {

// How a checkpoint has the matrices of a layer's experts.
enum class ExpertTensors : std::uint8_t {
  kEach,     // a tensor for each matrix of each expert
  kStacked,  // one for the gates of all experts, one for ups, one for downs
  // One of all gates and ups, those of an expert below each other, and one of all downs.
  kStackedGateUp
};

// Some gated MLPs without biases, of which a router chooses a few for each token.
struct MoeSpec {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  Activation activation = Activation::kSilu;
  bool weights_sum_to_one = false;  // those of a token's experts, else those of all experts
  // Of an expert that every token goes to, with a gate of its own; 0: there is none.
  std::int64_t shared_intermediate_size = 0;
  ExpertTensors tensors = ExpertTensors::kEach;

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& list) const;
  Status validate(std::string_view where) const;

  bool operator==(const MoeSpec&) const = default;
};

}  // namespace quire
