// Ops on each number on its own.
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/rows/row_access.cuh"
#include "kernels/cuda/rows/rows.h"

namespace quire::cuda {
namespace {

constexpr unsigned kElementThreads = 256;

struct GeluTanh {
  __device__ float operator()(float x) const {
    constexpr float kTwiceSqrtTwoOverPi = 1.5957691216F;  // (1 + tanh u) / 2 = sigmoid(2 u)
    return x / (1.0F + expf(-kTwiceSqrtTwoOverPi * (x + 0.044715F * x * x * x)));
  }
};

struct Gelu {
  __device__ float operator()(float x) const {
    constexpr float kSqrtHalf = 0.70710678118F;
    return 0.5F * x * erfcf(-kSqrtHalf * x);
  }
};

// NaN stays, here and below.
struct Relu {
  __device__ float operator()(float x) const { return x < 0.0F ? 0.0F : x; }
};

struct Relu2 {
  __device__ float operator()(float x) const { return x < 0.0F ? 0.0F : x * x; }
};

struct XieluCurve {
  Xielu curve;
  __device__ float operator()(float x) const {
    const float low = x > curve.epsilon ? curve.epsilon : x;
    const float bend = x > 0.0F ? curve.alpha_p * x * x : curve.alpha_n * (expm1f(low) - x);
    return bend + curve.beta * x;
  }
};

struct ScaleBy {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

struct ClampTo {
  float limit;
  __device__ float operator()(float x) const { return x > limit ? limit : x < -limit ? -limit : x; }
};

struct SoftCap {
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};

template <typename Op>
__global__ void map_elements(Op op, std::int64_t count, float* x) {
  let_next_start();
  wait_for_previous();
  const std::int64_t quad = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (4 * quad >= count) return;
  store_quad(map_quad(load_quad(x, quad, count), op), quad, count, x);
}

__global__ void scale_and_add_elements(const float* x, float factor, std::int64_t count,
                                       float* out) {
  let_next_start();
  wait_for_previous();
  const std::int64_t quad = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (4 * quad >= count) return;
  const float4 added = join_quads(load_quad(out, quad, count), load_quad(x, quad, count),
                                  [factor](float a, float b) { return a + factor * b; });
  store_quad(added, quad, count, out);
}

dim3 blocks_of_elements(std::int64_t count) {
  constexpr std::int64_t kOfBlock = std::int64_t{4} * kElementThreads;
  return {static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock), 1, 1};
}

template <typename Op>
void launch_map(const Launch& launch, const Op& op, std::int64_t count, float* x) {
  if (count == 0) return;
  launch_dependent(map_elements<Op>, blocks_of_elements(count), kElementThreads, 0, launch.stream,
                   op, count, x);
}

}  // namespace

void activate_in_place(const Launch& launch, Activation activation, std::int64_t count, float* x) {
  switch (activation) {
    case Activation::kGeluTanh:
      return launch_map(launch, GeluTanh{}, count, x);
    case Activation::kGelu:
      return launch_map(launch, Gelu{}, count, x);
    case Activation::kRelu:
      return launch_map(launch, Relu{}, count, x);
    case Activation::kRelu2:
      return launch_map(launch, Relu2{}, count, x);
    case Activation::kSilu:
      return;  // of gated MLPs alone
  }
}

void xielu_in_place(const Launch& launch, const Xielu& curve, std::int64_t count, float* x) {
  launch_map(launch, XieluCurve{curve}, count, x);
}

void scale_in_place(const Launch& launch, float factor, std::int64_t count, float* x) {
  launch_map(launch, ScaleBy{factor}, count, x);
}

void clamp_in_place(const Launch& launch, float limit, std::int64_t count, float* x) {
  launch_map(launch, ClampTo{limit}, count, x);
}

void soft_cap_in_place(const Launch& launch, float cap, std::int64_t count, float* x) {
  launch_map(launch, SoftCap{cap}, count, x);
}

void scale_and_add(const Launch& launch, const float* x, float factor, std::int64_t count,
                   float* out) {
  if (count == 0) return;
  launch_dependent(scale_and_add_elements, blocks_of_elements(count), kElementThreads, 0,
                   launch.stream, x, factor, count, out);
}

}  // namespace quire::cuda
