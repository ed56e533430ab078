// The best tokens of a row: those up to a limit in the order of logits, of equal ones the lower id
// first. The limit is found by counting the digits of logits (radix selection).
#pragma once

#include <cstdint>

#include <climits>

#include "kernels/cuda/rows/cluster_row.cuh"
#include "kernels/cuda/sampling/number_order.cuh"

namespace quire::cuda {

// The last of the tokens that are kept. At first it keeps all.
struct RowLimit {
  std::uint32_t order = 0;  // of its logit
  std::int32_t token = INT_MAX;

  __device__ bool keeps(float logit, std::int32_t at) const {
    const std::uint32_t seen = order_of_number(logit);
    return seen > order || (seen == order && at <= token);
  }
};

// Digits of the order of a logit, from the first; larger logits have smaller ones.
struct OrderDigits {
  static constexpr int kLevels = 3;
  std::uint32_t prefix = 0;  // the digits before this one
  std::uint32_t mask = 0;
  int level = 0;

  __device__ bool begins(std::uint32_t order) const { return (order & mask) == prefix; }
  __device__ int bin_of(std::uint32_t order) const {
    return kRowBins - 1 - static_cast<int>((order >> shift()) % kRowBins & digit_mask());
  }
  __device__ void append(int bin) {
    const auto digit = static_cast<std::uint32_t>(kRowBins - 1 - bin) & digit_mask();
    prefix |= digit << shift();
    mask |= digit_mask() << shift();
    ++level;
  }

 private:
  // 11, 11 and 10 bits.
  __device__ int shift() const { return level == 0 ? 21 : level == 1 ? 10 : 0; }
  __device__ std::uint32_t digit_mask() const { return level == 2 ? 1023U : 2047U; }
};

// The `rank`-th best of the tokens that keeps(logit, token), from 1; the default, which keeps all,
// where there are fewer.
template <bool kAligned, typename F>
__device__ RowLimit limit_of_rank(ClusterRow<kAligned>& row, std::int64_t rank, const F& keeps) {
  const auto as_added = [](int, double added) { return added; };
  OrderDigits digits;
  auto left = static_cast<double>(rank);
  while (digits.level < OrderDigits::kLevels) {
    row.for_each([&](float logit, std::int32_t token) {
      const std::uint32_t order = order_of_number(logit);
      if (digits.begins(order) && keeps(logit, token)) row.count(digits.bin_of(order));
    });
    const FoundBin found = row.find_bin(0.0, {.number = left}, as_added);
    if (found.bin == INT_MAX) return {};
    digits.append(found.bin);
    left -= found.before;
    if (found.value == left) return {.order = digits.prefix, .token = INT_MAX};
  }
  const FoundToken found =
      row.find_token({.number = left - 1.0}, [&](float logit, std::int32_t at) {
        return digits.begins(order_of_number(logit)) && keeps(logit, at) ? 1.0F : 0.0F;
      });
  return {.order = digits.prefix, .token = found.token};
}

}  // namespace quire::cuda
