// The norms between a layer's blocks.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quire {

enum class NormKind : std::uint8_t {
  kRms,    // Zhang and Sennrich 2019
  kLayer,  // Ba et al. 2016
};

// A norm with its weights, or none at all.
class Norm {
 public:
  Norm() = default;
  // weight: [cols] of its rows; empty: none. bias: [cols], or empty; of a layer norm.
  Norm(NormKind kind, float epsilon, DeviceFloats weight, DeviceFloats bias = {});

  // A layer norm of rows of `cols` that has no parameters.
  Norm(std::int64_t cols, float epsilon)
      : kind_(NormKind::kLayer), epsilon_(epsilon), cols_(cols) {}

  bool empty() const { return cols_ == 0; }

  // out = norm(x), where this is one. x, out: [rows][cols]; they may be the same.
  void apply(OpStream& ops, const float* x, std::int64_t rows, float* out) const;

  // out += norm(x), where this is an RMS norm.
  void apply_and_add(OpStream& ops, const float* x, std::int64_t rows, float* out) const;

 private:
  NormKind kind_ = NormKind::kRms;
  float epsilon_ = 0.0F;
  std::int64_t cols_ = 0;
  DeviceFloats weight_;
  DeviceFloats bias_;
};

}  // namespace quire
