#include "nn/norm.h"

#include <cassert>
#include <iterator>
#include <utility>

namespace quire {

Norm::Norm(NormKind kind, float epsilon, std::vector<float> weight, std::vector<float> bias)
    : kind_(kind), epsilon_(epsilon), weight_(std::move(weight)), bias_(std::move(bias)) {}

void Norm::apply(OpContext& ops, const float* x, std::int64_t rows, float* out) const {
  const std::int64_t cols = std::ssize(weight_);
  if (kind_ == NormKind::kLayer) {
    const float* bias = bias_.empty() ? nullptr : bias_.data();
    layer_norm(ops, x, weight_.data(), bias, epsilon_, rows, cols, out);
  } else {
    rms_norm(ops, x, weight_.data(), epsilon_, rows, cols, out);
  }
}

void Norm::apply_and_add(OpContext& ops, const float* x, std::int64_t rows, float* out) const {
  assert(kind_ == NormKind::kRms);  // DecoderSpec::validate()
  rms_norm_and_add(ops, x, weight_.data(), epsilon_, rows, std::ssize(weight_), out);
}

}  // namespace quire
