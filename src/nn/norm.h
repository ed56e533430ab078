// The norms between a layer's blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace quire {

// An RMS norm (Zhang and Sennrich 2019) with its weights, or none at all.
class Norm {
 public:
  Norm() = default;
  // weight: [cols] of the rows that it takes; empty: none.
  Norm(float epsilon, std::vector<float> weight);

  bool empty() const { return weight_.empty(); }

  // out = norm(x), where this is one. x, out: [rows][cols]; they may be the same.
  void apply(OpContext& ops, const float* x, std::int64_t rows, float* out) const;

  // out += norm(x).
  void apply_and_add(OpContext& ops, const float* x, std::int64_t rows, float* out) const;

 private:
  float epsilon_ = 0.0F;
  std::vector<float> weight_;
};

}  // namespace quire
