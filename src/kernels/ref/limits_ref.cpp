#include "kernels/ref/limits_ref.h"

namespace quire {
namespace {

constexpr int kSumLanes = 16;

float read(const float* data, std::int64_t count) {
  float sums[kSumLanes] = {};
  for (std::int64_t i = 0; i < count; i += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) sums[lane] += data[i + lane];
  }
  float sum = 0.0F;
  for (const float lane : sums) sum += lane;
  return sum;
}

float multiply_add(std::int64_t rounds) {
  float sums[kSumLanes] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
  }
  float sum = 0.0F;
  for (const float lane : sums) sum += lane;
  return sum;
}

}  // namespace

LimitKernels ref_limit_kernels() {
  LimitKernels kernels;
  kernels.read = read;
  kernels.peak(PeakKind::kF32) = {multiply_add, std::int64_t{2} * kSumLanes};
  return kernels;
}

}  // namespace quire
