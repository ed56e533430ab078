// What a GPU can do at most: the ceilings that the kernels' rates are shares of.
#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>
#include <vector>

#include "kernels/cuda/errors.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda_device.h"

namespace quire {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;  // far more than the L2 cache
constexpr int kRepeats = 15;
constexpr int kThreads = 512;
constexpr int kProducts = 4096;  // of a warpgroup
constexpr int kWarpgroup = 128;  // threads
constexpr int kProductColumns = 256;
constexpr int kLaunches = 1000;

__global__ void fill(std::uint32_t* values, std::uint64_t count) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    // Numbers of bfloat16 of size about 1, of either sign: zeros would cost less power and time.
    const std::uint32_t noise = static_cast<std::uint32_t>(i) * 2654435761U;
    values[i] = 0x3F803F80U | (noise & 0x807F807FU);
  }
}

// Four independent reads of 16 bytes a thread at a time.
__global__ void read_all(const uint4* values, std::uint64_t count, uint4* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  uint4 sum = make_uint4(0, 0, 0, 0);
  const auto add = [&](const uint4& v) {
    sum.x ^= v.x;
    sum.y ^= v.y;
    sum.z ^= v.z;
    sum.w ^= v.w;
  };
  std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = values[i];
    const uint4 b = values[i + step];
    const uint4 c = values[i + 2 * step];
    const uint4 d = values[i + 3 * step];
    add(a);
    add(b);
    add(c);
    add(d);
  }
  // Never so, which the compiler does not know.
  if (sum.x == 1 && sum.y == 2 && sum.z == 3 && sum.w == 4) *out = sum;
}

// Products of what lies in registers and shared memory: no other memory limits them.
__global__ void __launch_bounds__(2 * kWarpgroup, 1) multiply_all(float* out) {
  extern __shared__ __align__(1024) std::uint32_t columns[];
  for (int i = threadIdx.x; i < kProductColumns * 32; i += blockDim.x) {
    columns[i] = 0x3F803F80U | (static_cast<std::uint32_t>(i) * 2654435761U & 0x807F807FU);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float sums[kProductColumns / 2] = {};
  std::uint32_t a[4];
  for (int i = 0; i < 4; ++i)
    a[i] = 0x3F803F80U | ((threadIdx.x * 4 + i) * 2654435761U & 0x807F807FU);
  const std::uint64_t b =
      cuda::swizzled_operand(static_cast<std::uint32_t>(__cvta_generic_to_shared(columns)));
  cuda::wgmma_fence();
  for (int i = 0; i < kProducts; ++i) {
    cuda::WgmmaBf16<kProductColumns>::multiply(sums, a, b, true);
    cuda::wgmma_commit();
    cuda::wgmma_wait<1>();
  }
  cuda::wgmma_wait<0>();
  float sum = 0.0F;
  for (const float each : sums) sum += each;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void do_nothing() {}

// Times of repeated calls of enqueue(), in seconds, after one that is not counted.
template <typename F>
Result<std::vector<double>> seconds_of(CUstream_st* stream, const F& enqueue) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaEventCreate(&begin), "make an event"));
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaEventCreate(&end), "make an event"));
  std::vector<double> times;
  for (int i = 0; i <= kRepeats; ++i) {
    (void)cudaEventRecord(begin, stream);
    enqueue();
    (void)cudaEventRecord(end, stream);
    QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaEventSynchronize(end), "measure the GPU"));
    QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaGetLastError(), "measure the GPU"));
    float milliseconds = 0.0F;
    (void)cudaEventElapsedTime(&milliseconds, begin, end);
    if (i > 0) times.push_back(milliseconds / 1e3);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times;
}

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

}  // namespace

Result<CudaLimits> measure_cuda_limits(const CudaDeviceInfo& gpu) {
  cuda::Memory memory(gpu.index);
  QUIRE_ASSIGN_OR_RETURN(std::byte* const from, memory.take(kBytes));
  QUIRE_ASSIGN_OR_RETURN(std::byte* const to, memory.take(kBytes));
  CUstream_st* const stream = nullptr;  // the default one
  const int blocks = 16 * gpu.multiprocessors;
  fill<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<std::uint32_t*>(from), kBytes / 4);
  CudaLimits limits;
  QUIRE_ASSIGN_OR_RETURN(const auto reads, seconds_of(stream, [&] {
                           read_all<<<blocks, kThreads, 0, stream>>>(
                               reinterpret_cast<const uint4*>(from), kBytes / 16,
                               reinterpret_cast<uint4*>(to));
                         }));
  limits.best_read_bandwidth = static_cast<double>(kBytes) / reads.front();
  limits.median_read_bandwidth = static_cast<double>(kBytes) / median(reads);
  QUIRE_ASSIGN_OR_RETURN(const auto copies, seconds_of(stream, [&] {
                           (void)cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice,
                                                 stream);
                         }));
  limits.copy_bandwidth = 2.0 * static_cast<double>(kBytes) / median(copies);
  constexpr int kShared = kProductColumns * 128;
  (void)cudaFuncSetAttribute(multiply_all, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  QUIRE_ASSIGN_OR_RETURN(const auto products, seconds_of(stream, [&] {
                           multiply_all<<<gpu.multiprocessors, 2 * kWarpgroup, kShared, stream>>>(
                               reinterpret_cast<float*>(to));
                         }));
  limits.bf16_flop_per_s =
      2.0 * 64 * kProductColumns * 16 * 2 * kProducts * gpu.multiprocessors / median(products);
  QUIRE_ASSIGN_OR_RETURN(const auto launches, seconds_of(stream, [&] {
                           for (int i = 0; i < kLaunches; ++i) do_nothing<<<1, 32, 0, stream>>>();
                         }));
  limits.launch_seconds = median(launches) / kLaunches;
  memory.give_back(from);
  memory.give_back(to);
  return limits;
}

}  // namespace quire
