// What kernels do with a row of logits that a cluster of blocks has to itself: they go through it
// as often as they like, count into bins, and find the bin or the token at which a sum is reached.
//
// A warp has a region of the row, and these follow each other, so that sums in the order of the
// tokens are sums of regions. Bins are of integers, and sums of regions are added up in one way:
// all results are the same in every run. What is found is known to all threads of the cluster.
#pragma once

#include <cooperative_groups.h>
#include <cstdint>

#include <climits>

#include "kernels/cuda/rows/row_regions.cuh"

namespace quire::cuda {

inline constexpr int kRowBins = 2048;
// Bins hold sums of 24-bit integers as two sums of 12 bits each.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;

// What is sought: a sum, as share * (the sum of all) + number.
struct SoughtSum {
  double share = 0.0;
  double number = 0.0;
};

// The first bin with which the sum of all up to it reaches a target.
struct FoundBin {
  int bin = INT_MAX;    // INT_MAX: none does
  int last = -1;        // the last with anything in it
  double before = 0.0;  // the sum before it
  double value = 0.0;   // its own
  double target = 0.0;
  double total = 0.0;
};

// The first token with which the sum of all up to it exceeds a target.
struct FoundToken {
  std::int32_t token = INT_MAX;  // INT_MAX: none does
  double before = 0.0;
  double after = 0.0;  // with its own
  double target = 0.0;
  double total = 0.0;
  float least = 0.0F;  // the smallest value above 0 of the row
};

struct TwoSums {
  double first = 0.0;
  double second = 0.0;
};

// Shared memory of a block. The first block of a cluster collects what the others find.
struct RowShared {
  std::uint32_t low[kRowBins];
  std::uint32_t high[kRowBins];
  double region_sums[kRowRegions];
  double region_counts[kRowRegions];
  float region_least[kRowRegions];
  double warp_sums[kRowWarps];
  FoundBin bin;
  FoundToken token;
  TwoSums sums;
  int first_bin;  // or the first token
  int last_bin;
};

template <bool kAligned>
class ClusterRow {
 public:
  // logits: [vocab], aligned where kAligned. All threads of a cluster make it, and call what
  // follows together.
  __device__ ClusterRow(const float* logits, std::int64_t vocab, RowShared& shared)
      : regions_(logits, vocab), shared_(shared) {
    for (int bin = threadIdx.x; bin < kRowBins; bin += kRowThreads) {
      shared.low[bin] = 0;
      shared.high[bin] = 0;
    }
    row_cluster().sync();
  }

  // Calls fn(logit, token) for the tokens of this thread, in their order.
  template <typename F>
  __device__ void for_each(const F& fn) const {
    regions_.for_each(fn);
  }

  // Adds one to a bin. All threads call count() or add() between two find_bin(), not both.
  __device__ void count(int bin) { atomicAdd(&shared_.low[bin], 1U); }
  // Adds a number below 2^24.
  __device__ void add(int bin, std::uint32_t number) {
    atomicAdd(&shared_.low[bin], number % kHalf);
    atomicAdd(&shared_.high[bin], number / kHalf);
  }

  // The first bin with before + the sum of all up to it >= what is sought, a bin counting as
  // value_of(bin, what was added to it). Empties all bins.
  template <typename F>
  __device__ FoundBin find_bin(double before, SoughtSum sought, const F& value_of) {
    __syncthreads();
    if (row_cluster().block_rank() != 0) send_bins();
    row_cluster().sync();
    if (row_cluster().block_rank() == 0) search_bins(before, sought, value_of);
    row_cluster().sync();
    return shared_.bin;
  }

  // The first token with the sum of value_of(logit, token) >= 0 of all up to it > what is sought.
  template <typename F>
  __device__ FoundToken find_token(SoughtSum sought, const F& value_of) {
    double sum = 0.0;
    float least = INFINITY;
    for_each([&](float logit, std::int32_t token) {
      const float value = value_of(logit, token);
      sum += double{value};
      if (value > 0.0F) least = fminf(least, value);
    });
    sum = sum_of_warp(sum);
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      least = fminf(least, __shfl_xor_sync(~0U, least, lanes));
    }
    if (threadIdx.x % 32 == 0) {
      row_cluster().map_shared_rank(shared_.region_sums, 0)[regions_.own()] = sum;
      row_cluster().map_shared_rank(shared_.region_least, 0)[regions_.own()] = least;
    }
    row_cluster().sync();
    if (row_cluster().block_rank() == 0) search_tokens(sought, value_of);
    row_cluster().sync();
    return shared_.token;
  }

  // The sums of both numbers that of(logit, token) gives.
  template <typename F>
  __device__ TwoSums sums(const F& of) {
    TwoSums sum;
    for_each([&](float logit, std::int32_t token) {
      const TwoSums added = of(logit, token);
      sum.first += added.first;
      sum.second += added.second;
    });
    sum.first = sum_of_warp(sum.first);
    sum.second = sum_of_warp(sum.second);
    if (threadIdx.x % 32 == 0) {
      row_cluster().map_shared_rank(shared_.region_sums, 0)[regions_.own()] = sum.first;
      row_cluster().map_shared_rank(shared_.region_counts, 0)[regions_.own()] = sum.second;
    }
    row_cluster().sync();
    if (row_cluster().block_rank() == 0 && threadIdx.x < 32) {
      sum = {};
      for (int region = threadIdx.x; region < kRowRegions; region += 32) {
        sum.first += shared_.region_sums[region];
        sum.second += shared_.region_counts[region];
      }
      sum.first = sum_of_warp(sum.first);
      sum.second = sum_of_warp(sum.second);
      if (threadIdx.x == 0) tell_all(sum, &RowShared::sums);
    }
    row_cluster().sync();
    return shared_.sums;
  }

 private:
  static constexpr std::uint32_t kHalf = 1U << 12U;

  __device__ void send_bins() {
    auto* const low = row_cluster().map_shared_rank(shared_.low, 0);
    auto* const high = row_cluster().map_shared_rank(shared_.high, 0);
    for (int bin = threadIdx.x; bin < kRowBins; bin += kRowThreads) {
      if (shared_.low[bin] != 0) atomicAdd(&low[bin], shared_.low[bin]);
      if (shared_.high[bin] != 0) atomicAdd(&high[bin], shared_.high[bin]);
      shared_.low[bin] = 0;
      shared_.high[bin] = 0;
    }
  }

  // `found` becomes that of all blocks.
  template <typename T>
  __device__ void tell_all(const T& found, T RowShared::*member) {
    for (unsigned block = 0; block < kRowCluster; ++block) {
      row_cluster().map_shared_rank(&shared_, block)->*member = found;
    }
  }

  template <typename F>
  __device__ void search_bins(double before, SoughtSum sought, const F& value_of) {
    constexpr int kOfThread = kRowBins / kRowThreads;
    const int first = static_cast<int>(threadIdx.x) * kOfThread;
    const unsigned warp = threadIdx.x / 32;
    double values[kOfThread];
    double sum = 0.0;
    for (int i = 0; i < kOfThread; ++i) {
      const double added = static_cast<double>(shared_.low[first + i]) +
                           static_cast<double>(shared_.high[first + i]) * kHalf;
      shared_.low[first + i] = 0;
      shared_.high[first + i] = 0;
      values[i] = added == 0.0 ? 0.0 : value_of(first + i, added);
      sum += values[i];
    }
    if (threadIdx.x == 0) {
      shared_.first_bin = INT_MAX;
      shared_.last_bin = -1;
    }
    const double up_to_thread = sums_up_to_lane(sum);
    if (threadIdx.x % 32 == 31) shared_.warp_sums[warp] = up_to_thread;
    __syncthreads();
    double at = before;
    double total = 0.0;
    for (unsigned i = 0; i < kRowWarps; ++i) {
      if (i == warp) at += total;
      total += shared_.warp_sums[i];
    }
    const double before_thread = __shfl_up_sync(~0U, up_to_thread, 1);
    if (threadIdx.x % 32 != 0) at += before_thread;

    FoundBin found;
    found.total = total;
    found.target = sought.share * total + sought.number;
    for (int i = 0; i < kOfThread; ++i) {
      if (values[i] == 0.0) continue;
      found.last = first + i;
      if (found.bin == INT_MAX && at + values[i] >= found.target) {
        found.bin = first + i;
        found.before = at;
        found.value = values[i];
      }
      at += values[i];
    }
    const int first_bin = __reduce_min_sync(~0U, found.bin);
    const int last_bin = __reduce_max_sync(~0U, found.last);
    if (threadIdx.x % 32 == 0) {
      atomicMin(&shared_.first_bin, first_bin);
      atomicMax(&shared_.last_bin, last_bin);
    }
    __syncthreads();
    found.last = shared_.last_bin;
    const bool is_first = found.bin != INT_MAX && found.bin == shared_.first_bin;
    const bool is_none = shared_.first_bin == INT_MAX && threadIdx.x == 0;
    if (is_first || is_none) tell_all(found, &RowShared::bin);
  }

  // Of a warp's lanes, each with those before it.
  __device__ static double sums_up_to_lane(double sum) {
    for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
      const double other = __shfl_up_sync(~0U, sum, lanes);
      if (threadIdx.x % 32 >= lanes) sum += other;
    }
    return sum;
  }
  __device__ static double before_lane(double up_to_lane) {
    const double other = __shfl_up_sync(~0U, up_to_lane, 1);
    return threadIdx.x % 32 == 0 ? 0.0 : other;
  }

  // The region, which every warp finds, then the token in it.
  template <typename F>
  __device__ void search_tokens(SoughtSum sought, const F& value_of) {
    constexpr int kOfLane = kRowRegions / 32;
    const int first = static_cast<int>(threadIdx.x % 32) * kOfLane;
    double sum = 0.0;
    FoundToken found;
    found.least = INFINITY;
    for (int i = 0; i < kOfLane; ++i) {
      sum += shared_.region_sums[first + i];
      found.least = fminf(found.least, shared_.region_least[first + i]);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      found.least = fminf(found.least, __shfl_xor_sync(~0U, found.least, lanes));
    }
    const double up_to_lane = sums_up_to_lane(sum);
    found.total = __shfl_sync(~0U, up_to_lane, 31);
    found.target = sought.share * found.total + sought.number;
    double at = before_lane(up_to_lane);
    int region = INT_MAX;
    double before_region = 0.0;
    for (int i = 0; i < kOfLane; ++i) {
      const double of_region = shared_.region_sums[first + i];
      if (region == INT_MAX && of_region > 0.0 && at + of_region > found.target) {
        region = first + i;
        before_region = at;
      }
      at += of_region;
    }
    region = __reduce_min_sync(~0U, region);
    if (region == INT_MAX) {
      if (threadIdx.x == 0) tell_all(found, &RowShared::token);
      return;
    }
    before_region = __shfl_sync(~0U, before_region, region / kOfLane);
    search_region(region, before_region, value_of, found);
  }

  // The warps of the block go through the region side by side.
  template <typename F>
  __device__ void search_region(int region, double before, const F& value_of, FoundToken found) {
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) shared_.first_bin = INT_MAX;
    for (std::int64_t first = 0; first < regions_.quads_of_lane(); first += kRowWarps) {
      float values[4] = {};
      const std::int64_t quad = regions_.quad_of_lane(region, first + warp);
      if (first + warp < regions_.quads_of_lane()) {
        const float4 logits = regions_.read(quad);
        const float of_quad[4] = {logits.x, logits.y, logits.z, logits.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::int64_t token = 4 * quad + i;
          if (token < regions_.vocab()) {
            values[i] = value_of(of_quad[i], static_cast<std::int32_t>(token));
          }
        }
      }
      const double sum =
          double{values[0]} + double{values[1]} + double{values[2]} + double{values[3]};
      const double up_to_lane = sums_up_to_lane(sum);
      if (threadIdx.x % 32 == 31) shared_.warp_sums[warp] = up_to_lane;
      __syncthreads();
      double at = before;
      for (unsigned i = 0; i < kRowWarps; ++i) {
        if (i == warp) at = before;
        before += shared_.warp_sums[i];
      }
      at += before_lane(up_to_lane);
      FoundToken of_lane = found;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const double after = at + double{values[i]};
        if (of_lane.token == INT_MAX && values[i] > 0.0F && after > found.target) {
          of_lane.token = static_cast<std::int32_t>(4 * quad) + i;
          of_lane.before = at;
          of_lane.after = after;
        }
        at = after;
      }
      if (of_lane.token != INT_MAX) atomicMin(&shared_.first_bin, of_lane.token);
      __syncthreads();
      if (shared_.first_bin != INT_MAX) {
        if (of_lane.token == shared_.first_bin) tell_all(of_lane, &RowShared::token);
        return;
      }
    }
    if (threadIdx.x == 0) tell_all(found, &RowShared::token);
  }

  RowRegions<kAligned> regions_;
  RowShared& shared_;
};

}  // namespace quire::cuda
