// How a cluster of blocks shares a row of logits: each warp has a region of it. Regions follow each
// other, so that what is in the order of the tokens is in the order of the regions.
#pragma once

#include <cooperative_groups.h>
#include <cstdint>

#include "kernels/cuda/rows/row_access.cuh"

namespace quire::cuda {

inline constexpr unsigned kRowThreads = 512;
inline constexpr unsigned kRowCluster = 8;
inline constexpr unsigned kRowWarps = kRowThreads / 32;
inline constexpr int kRowRegions = kRowWarps * kRowCluster;

__device__ inline cooperative_groups::cluster_group row_cluster() {
  return cooperative_groups::this_cluster();
}

template <bool kAligned>
class RowRegions {
 public:
  // logits: [vocab], aligned where kAligned.
  __device__ RowRegions(const float* logits, std::int64_t vocab) : logits_(logits), vocab_(vocab) {
    constexpr std::int64_t kOfWarp = 128;
    const std::int64_t pieces = (vocab + kOfWarp * kRowRegions - 1) / (kOfWarp * kRowRegions);
    size_ = pieces * kOfWarp;
    own_ = static_cast<int>(row_cluster().block_rank() * kRowWarps + threadIdx.x / 32);
  }

  __device__ std::int64_t vocab() const { return vocab_; }
  __device__ int own() const { return own_; }  // this warp's region

  // Calls fn(logit, token) for the tokens of this thread, in their order.
  template <typename F>
  __device__ void for_each(const F& fn) const {
    for_each_quad(own_, [&](float4 logits, std::int64_t quad) {
      for_each_of_quad(logits, quad, vocab_, [&](float logit, std::int64_t token) {
        fn(logit, static_cast<std::int32_t>(token));
      });
    });
  }

  // Calls fn(logits, quad) for the quads of this lane in a region, a few of them read at once. All
  // lanes of a warp make as many calls: some may be of quads beyond the row.
  template <typename F>
  __device__ void for_each_quad(int region, const F& fn) const {
    constexpr int kAtOnce = 4;
    for (std::int64_t i = 0; i < quads_of_lane(); i += kAtOnce) {
      float4 logits[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) logits[k] = read(quad_of_lane(region, i + k));
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < quads_of_lane()) fn(logits[k], quad_of_lane(region, i + k));
      }
    }
  }

  // What a lane has of a region: every 32nd of its quads.
  __device__ std::int64_t quads_of_lane() const { return size_ / 128; }
  __device__ std::int64_t quad_of_lane(int region, std::int64_t i) const {
    return region * size_ / 4 + 32 * i + threadIdx.x % 32;
  }
  __device__ float4 read(std::int64_t quad) const {
    return load_quad<kAligned>(logits_, quad, vocab_);
  }

 private:
  const float* logits_;
  std::int64_t vocab_;
  std::int64_t size_;  // of a region, a multiple of 128
  int own_;
};

}  // namespace quire::cuda
