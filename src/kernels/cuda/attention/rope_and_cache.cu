#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda_pipeline.h>
#include <type_traits>

#include "base/checked.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/kv_numbers.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

// A head is one warp's, which keeps it in shared memory: few heads of few tokens are enough work
// for all of them, and no warp waits for another.
constexpr int kHeadWarps = 4;
// Floats of shared memory that every kernel may have.
constexpr int kHeadFloats = 12 * 1024;
// Of many heads a warp has several: so much is on its way to a multiprocessor at once.
constexpr int kHeadsEach = 4;
constexpr std::int64_t kManyHeads = 16384;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

__device__ void norm_head(const float* weight, float epsilon, int dims, int lane, float* x) {
  float squares = 0.0F;
  for (int i = lane; i < dims; i += 32) squares = fmaf(x[i], x[i], squares);
  const float mean = warp_sum(squares) / static_cast<float>(dims);
  const float scale = 1.0F / sqrtf(mean + epsilon);
  for (int i = lane; i < dims; i += 32) x[i] = x[i] * scale * weight[i];
}

// `angles`: cosines of all pairs, then their sines.
__device__ void rotate_head(const float* angles, int pairs, RopeStyle style, int lane, float* x) {
  for (int i = lane; i < pairs; i += 32) {
    float& first = style == RopeStyle::kHalves ? x[i] : x[2 * i];
    float& second = style == RopeStyle::kHalves ? x[pairs + i] : x[2 * i + 1];
    const float a = first;
    const float b = second;
    const float cosine = angles[i];
    const float sine = angles[pairs + i];
    first = __fmaf_rn(a, cosine, -__fmul_rn(b, sine));
    second = __fmaf_rn(b, cosine, __fmul_rn(a, sine));
  }
}

// KvRounding (kernels/ref/kv_ref.h), of int8.
struct HeadRounding {
  float scale;
  float inverse;
};

__device__ HeadRounding round_head(const float* x, int dims, int lane) {
  float largest = 0.0F;
  bool finite = true;
  for (int i = lane; i < dims; i += 32) {
    largest = fmaxf(largest, fabsf(x[i]));
    finite = finite && isfinite(x[i]);
  }
  largest = warp_max(largest);
  if (!__all_sync(kAllLanes, finite)) return {__uint_as_float(0x7FC00000U), 0.0F};
  if (largest < 0x1p-119F) return {0.0F, 0.0F};
  return {__fdiv_rn(largest, 127.0F), __fdiv_rn(127.0F, largest)};
}

// The head is a key's where `is_key`, else a value's.
template <DType kDType>
__device__ void store_head(const float* x, const KvLayout& layout, BlockId block, int kv_head,
                           int slot, bool is_key, int lane, std::byte* kv) {
  using Number = KvNumber<kDType>;
  HeadRounding rounding = {1.0F, 1.0F};
  if constexpr (kDType == DType::kI8) {
    rounding = round_head(x, layout.head_dim, lane);
    const std::uint64_t scale_offset = is_key ? layout.key_scale_offset(block, kv_head, slot)
                                              : layout.value_scale_offset(block, kv_head, slot);
    if (lane == 0) *reinterpret_cast<float*>(kv + scale_offset) = rounding.scale;
  }
  const auto code = [&](int dim) -> typename Number::Bits {
    if (dim >= layout.head_dim || rounding.inverse == 0.0F) return Number::of(0.0F);
    if constexpr (kDType == DType::kI8) return Number::of(x[dim] * rounding.inverse);
    return Number::of(x[dim]);
  };
  if (!is_key) {
    std::byte* const to = kv + layout.values_offset(block, kv_head);
    for (int i = lane; i < layout.row_dims(); i += 32) {
      *reinterpret_cast<typename Number::Bits*>(to + layout.value_element_offset(i, slot)) =
          code(i);
    }
    return;
  }
  std::byte* const to = kv + layout.keys_offset(block, kv_head);
  if constexpr (Number::kKeyGroup == 1) {
    for (int i = lane; i < layout.row_dims(); i += 32) {
      *reinterpret_cast<float*>(to + layout.key_element_offset(i, slot)) = code(i);
    }
  } else {
    using Unsigned = std::make_unsigned_t<typename Number::Bits>;
    for (int i = 2 * lane; i < layout.row_dims(); i += 64) {
      const auto low = static_cast<Unsigned>(code(i));
      const auto high = static_cast<Unsigned>(code(i + 1));
      *reinterpret_cast<typename Number::Pair*>(to + layout.key_element_offset(i, slot)) =
          static_cast<typename Number::Pair>(low | static_cast<std::uint32_t>(high)
                                                       << (8 * sizeof(Unsigned)));
    }
  }
}

// A warp's shared memory, in floats, aligned to four: heads, then weights of a norm, then angles.
struct HeadBuffers {
  int heads;  // a warp's, which lie side by side, of one token
  int dims;
  int angle_count;
  static __host__ __device__ int aligned(int floats) { return (floats + 3) / 4 * 4; }
  __host__ __device__ int weights() const { return aligned(heads * dims); }
  __host__ __device__ int angles() const { return weights() + aligned(dims); }
  __host__ __device__ int floats() const { return angles() + aligned(angle_count); }
};

// Starts a warp's copy into shared memory.
__device__ void copy_floats(const float* from, int count, int lane, float* to) {
  if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && count % 4 == 0) {
    for (int i = 4 * lane; i < count; i += 128) __pipeline_memcpy_async(to + i, from + i, 16);
  } else {
    for (int i = lane; i < count; i += 32) __pipeline_memcpy_async(to + i, from + i, 4);
  }
}

// Block (x, y): token x, the heads of y. Everything is asked for before anything is waited for.
template <DType kDType>
__global__ void __launch_bounds__(32 * kHeadWarps)
    rope_and_cache_kernel(RopeAndCacheArgs args, HeadBuffers buffers) {
  extern __shared__ __align__(16) float head_memory[];
  let_next_start();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  KvLayout layout = args.layout;
  layout.dtype = kDType;
  const int dims = layout.head_dim;
  const int all_heads = args.all_heads();
  const int first_key = args.num_heads;
  const int first_value = first_key + layout.num_kv_heads;
  const std::int64_t token = blockIdx.x;
  const int first = static_cast<int>(blockIdx.y * (blockDim.x / 32) + static_cast<unsigned>(warp)) *
                    buffers.heads;
  const int last = min(first + buffers.heads, all_heads);
  if (first >= last) return;
  float* const rows = head_memory + warp * buffers.floats();
  float* const weights = rows + buffers.weights();
  float* const angles = rows + buffers.angles();
  // A warp has either queries or others, so that one norm is enough.
  const float* const norm = first < first_key ? args.q_norm : args.k_norm;
  if (norm != nullptr && first < first_value) {
    for (int i = lane; i < dims; i += 32) weights[i] = norm[i];
  }
  wait_for_previous();
  const std::int64_t slot = last > first_key ? args.slot_mapping[token] : 0;
  const bool rotates = args.rotary_dim > 0 && first < first_value;
  const std::int64_t position = rotates ? args.positions[token] : 0;
  float* const from = args.qkv + (token * all_heads + first) * dims;
  copy_floats(from, (last - first) * dims, lane, rows);
  if (rotates) {
    copy_floats(args.rope_table + position * args.rotary_dim, args.rotary_dim, lane, angles);
  }
  __pipeline_commit();
  const auto block = static_cast<BlockId>(slot / layout.block_size);
  const auto offset = static_cast<int>(slot % layout.block_size);
  __pipeline_wait_prior(0);
  __syncwarp();
  for (int head = first; head < last; ++head) {
    float* const x = rows + (head - first) * dims;
    if (head < first_value) {
      if (norm != nullptr && !args.norms_after_rope) {
        norm_head(weights, args.norm_epsilon, dims, lane, x);
        __syncwarp();
      }
      if (rotates) {
        rotate_head(angles, args.rotary_dim / 2, args.style, lane, x);
        __syncwarp();
      }
      if (norm != nullptr && args.norms_after_rope) {
        norm_head(weights, args.norm_epsilon, dims, lane, x);
        __syncwarp();
      }
      if (norm != nullptr || rotates) {
        float* const to = from + (head - first) * dims;
        for (int i = lane; i < dims; i += 32) to[i] = x[i];
      }
    }
    if (head < first_key) continue;
    const bool is_key = head < first_value;
    store_head<kDType>(x, layout, block, head - (is_key ? first_key : first_value), offset, is_key,
                       lane, args.kv);
  }
}

}  // namespace

void rope_and_cache(const Launch& launch, const RopeAndCacheArgs& args) {
  if (args.num_tokens == 0) return;
  const int all_heads = args.all_heads();
  // No warp has both queries and keys.
  const bool several =
      args.num_tokens * all_heads >= kManyHeads && args.num_heads % kHeadsEach == 0;
  const HeadBuffers buffers = {.heads = several ? kHeadsEach : 1,
                               .dims = args.layout.head_dim,
                               .angle_count = args.rotary_dim};
  const int warps = std::clamp(kHeadFloats / buffers.floats(), 1, kHeadWarps);
  const auto groups = static_cast<unsigned>(ceil_div(all_heads, warps * buffers.heads));
  const auto run = [&](auto kernel) {
    launch_dependent(kernel, dim3(static_cast<unsigned>(args.num_tokens), groups),
                     dim3(static_cast<unsigned>(32 * warps)),
                     static_cast<std::size_t>(warps * buffers.floats()) * sizeof(float),
                     launch.stream, args, buffers);
  };
  switch (args.layout.dtype) {
    case DType::kBF16:
      return run(rope_and_cache_kernel<DType::kBF16>);
    case DType::kF8E4M3:
      return run(rope_and_cache_kernel<DType::kF8E4M3>);
    case DType::kI8:
      return run(rope_and_cache_kernel<DType::kI8>);
    default:
      return run(rope_and_cache_kernel<DType::kF32>);
  }
}

}  // namespace quire::cuda
