// The feed-forward part of one layer as data.
#pragma once

#include <cstdint>
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

// down(activation(up(x))).
struct PlainMlpSpec {
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::kGeluTanh;
  bool bias = false;   // of both
  bool xielu = false;  // the activation is xIELU, with the layer's numbers

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const PlainMlpSpec&) const = default;
};

}  // namespace quire
