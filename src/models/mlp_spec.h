// The feed-forward part of one layer as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/op_args.h"
#include "models/tensor_names.h"

namespace quire {

// down(activation(gate(x)) * up(x)).
struct GatedMlpSpec {
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::kSilu;
  bool bias = false;           // of all three
  bool fused_gate_up = false;  // the checkpoint has gate and up as one matrix

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const GatedMlpSpec&) const = default;
};

// The same of gates that are open above a cutoff alone (nn/sparse_mlp_block.h).
struct SparseMlpSpec : GatedMlpSpec {
  double deviations = 0;  // of the cutoff from the gates' mean

  Status validate(std::string_view where) const;

  bool operator==(const SparseMlpSpec&) const = default;
};

// down(activation(up(x))).
struct PlainMlpSpec {
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::kGeluTanh;
  bool bias = false;   // of both
  bool xielu = false;  // the activation is xIELU, with the layer's numbers
  // These, slopes before their softplus, where no tensors have them.
  std::optional<Xielu> xielu_numbers = {};

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const PlainMlpSpec&) const = default;
};

}  // namespace quire
