// The feed-forward part of a layer with a mixture of experts as data.
#pragma once

#include <cstdint>
#include <optional>
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
  kStackedGateUp,
  // The same, with outputs of gate and up in turn.
  kStackedPairs,
  // As kStackedGateUp, with a row for each input instead of one for each output.
  kTurnedGateUp,
  // The same, with outputs of gate and up in turn.
  kTurnedPairs
};

// How a checkpoint has the numbers that are added to scores before experts are chosen.
enum class ChoiceBias : std::uint8_t { kNone, kVector, kRow /* a matrix of one row */ };

// Some gated MLPs, of which a router chooses a few for each token.
struct MoeSpec {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  Activation activation = Activation::kSilu;
  Routing routing = {};
  ChoiceBias choice_bias = ChoiceBias::kNone;
  // Of an expert that every token goes to; 0: there is none.
  std::int64_t shared_intermediate_size = 0;
  bool shared_gate = false;  // that one has a gate for its result
  ExpertTensors tensors = ExpertTensors::kEach;
  bool router_bias = false;
  bool biases = false;                      // of those in pairs, or of three tensors
  std::optional<ClampedGate> clamped = {};  // instead of `activation`
  bool weigh_inputs = false;  // a token is weighted before it goes into an expert, else afterwards

  // Whether the experts' matrices have a row for each input.
  // Whether outputs of gate and up follow each other in turn.
  bool in_pairs() const {
    return tensors == ExpertTensors::kStackedPairs || tensors == ExpertTensors::kTurnedPairs;
  }
  bool turned() const {
    return tensors == ExpertTensors::kTurnedGateUp || tensors == ExpertTensors::kTurnedPairs;
  }

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& list) const;
  Status validate(std::string_view where) const;

  bool operator==(const MoeSpec&) const = default;
};

}  // namespace quire
