#include "nn/norm.h"

#include <cassert>
#include <utility>

namespace quire {

Norm::Norm(NormKind kind, float epsilon, DeviceFloats weight, DeviceFloats bias)
    : kind_(kind),
      epsilon_(epsilon),
      cols_(weight.size()),
      weight_(std::move(weight)),
      bias_(std::move(bias)) {}

void Norm::apply(OpStream& ops, const float* x, std::int64_t rows, float* out) const {
  if (kind_ == NormKind::kLayer) {
    ops.layer_norm(x, weight_.data_or_null(), bias_.data_or_null(), epsilon_, rows, cols_, out);
  } else {
    ops.rms_norm(x, weight_.data(), epsilon_, rows, cols_, out);
  }
}

void Norm::apply_and_add(OpStream& ops, const float* x, std::int64_t rows, float* out) const {
  assert(kind_ == NormKind::kRms);  // DecoderSpec::validate()
  ops.rms_norm_and_add(x, weight_.data(), epsilon_, rows, cols_, out);
}

}  // namespace quire
