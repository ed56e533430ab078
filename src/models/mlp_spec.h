// The feed-forward part of one layer as data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/ops.h"
#include "models/tensor_names.h"

namespace quire {

// down(activation(gate(x)) * up(x)).
struct GatedMlpSpec {
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::kSilu;
  bool bias = false;  // of all three

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const GatedMlpSpec&) const = default;
};

}  // namespace quire
