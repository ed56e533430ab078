// Experts of a mixture whose weights lie with another device than the one that computes the rest of
// their layer. What they read goes there by way of the host's memory, and what they give comes
// back, in the middle of a step: both devices wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/device.h"

namespace quire {

class DistantExperts {
 public:
  // The largest of all layers.
  struct Sizes {
    std::int64_t max_rows = 0;
    std::int64_t hidden_size = 0;
    std::int64_t experts_per_row = 0;
  };

  // Bytes of the memory that the constructor is given, of the host's that it takes, and of
  // StreamLimits::downloaded_bytes where the rest of the layer is computed.
  static std::uint64_t bytes(const Sizes& sizes);
  static std::uint64_t host_bytes(const Sizes& sizes);
  static std::uint64_t downloaded_bytes(const Sizes& sizes);

  // `there`: a stream of the device that has the weights, which is borrowed; `out`: in its memory,
  // bytes().
  DistantExperts(OpStream& there, float* out, const Sizes& sizes);

  // What OpStream::expert_mlp() says, on the other device: `products` has the weights there, and
  // the router's choices, like x and out, here.
  void compute(OpStream& here, const float* x, std::int64_t rows, const ExpertProducts& products,
               float* out);

  // The first error since the last call; what compute() should have written then, and ever since,
  // means nothing.
  Status take_status();

 private:
  OpStream& there_;
  float* out_;
  std::int64_t hidden_size_;
  // Of the host.
  std::vector<float> x_;
  std::vector<std::int32_t> chosen_;
  std::vector<float> weights_;
  std::vector<float> results_;
  Status status_;
};

}  // namespace quire
