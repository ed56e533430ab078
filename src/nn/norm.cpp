#include "nn/norm.h"

#include <utility>

namespace quire {

Norm::Norm(float epsilon, std::vector<float> weight)
    : epsilon_(epsilon), weight_(std::move(weight)) {}

void Norm::apply(OpContext& ops, const float* x, std::int64_t rows, float* out) const {
  rms_norm(ops, x, weight_.data(), epsilon_, rows, std::ssize(weight_), out);
}

void Norm::apply_and_add(OpContext& ops, const float* x, std::int64_t rows, float* out) const {
  rms_norm_and_add(ops, x, weight_.data(), epsilon_, rows, std::ssize(weight_), out);
}

}  // namespace quire
