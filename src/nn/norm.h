// The norms between a layer's blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace quire {

enum class NormKind : std::uint8_t {
  kRms,    // Zhang and Sennrich 2019
  kLayer,  // Ba et al. 2016
};

// A norm with its weights, or none at all.
class Norm {
 public:
  Norm() = default;
  // weight: [cols] of the rows that it takes; empty: none. bias: [cols], or empty; of a layer norm.
  Norm(NormKind kind, float epsilon, std::vector<float> weight, std::vector<float> bias = {});

  bool empty() const { return weight_.empty(); }

  // out = norm(x), where this is one. x, out: [rows][cols]; they may be the same.
  void apply(OpContext& ops, const float* x, std::int64_t rows, float* out) const;

  // out += norm(x), where this is an RMS norm.
  void apply_and_add(OpContext& ops, const float* x, std::int64_t rows, float* out) const;

 private:
  NormKind kind_ = NormKind::kRms;
  float epsilon_ = 0.0F;
  std::vector<float> weight_;
  std::vector<float> bias_;
};

}  // namespace quire
