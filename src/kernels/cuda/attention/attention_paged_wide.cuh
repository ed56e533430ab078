// The parts of the kernel of attention_paged_wide.h. Two warpgroups compute, 64 rows each, and one
// moves keys and values of ranges ahead of them into a ring of buffers, in the order in which wgmma
// wants them: the numbers of K side by side.
//
// A buffer has the keys of a range, [dims / 64][256 keys][64 dims], or its values, [4][dims][64
// keys], both in rows of 128 bytes in the 128-byte swizzle. A quarter of it, of 64 keys, has
// barriers of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_paged_copies.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_rows.cuh"

namespace quire::cuda {

inline constexpr std::int32_t kWideRows = 64;   // of a warpgroup
inline constexpr std::int32_t kWideTile = 128;  // rows of a block
inline constexpr int kWideThreads = 3 * 128;
inline constexpr std::int32_t kQuarterKeys = 64;
inline constexpr std::int32_t kMostWideSequences = 128;

// The sequences of a launch, and the numbers of their first items. An item is a tile of rows and a
// KV head.
struct WideTask {
  AttentionArgs args;
  AttentionInputs inputs;
  KvPlaces kv;
  std::int32_t group = 1;
  std::int32_t num_sequences = 0;
  std::int32_t sequences[kMostWideSequences];
  std::int32_t first_items[kMostWideSequences + 1];
};

struct WideItem {
  std::int32_t sequence;
  std::int32_t kv_head;
  std::int32_t tile;
  SequenceRows rows;

  // The item of this block in a round; false where there is none left. Items with more keys come
  // first, and blocks take turns in who has the most.
  __device__ static bool find(const WideTask& task, std::int32_t round, WideItem& item) {
    const auto blocks = static_cast<std::int32_t>(gridDim.x);
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    const std::int32_t number = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    if (number >= task.first_items[task.num_sequences]) return false;
    std::int32_t index = 0;
    while (number >= task.first_items[index + 1]) ++index;
    item.sequence = task.sequences[index];
    item.rows = SequenceRows::of(task.inputs.query_start_loc, task.inputs.seq_lens, item.sequence,
                                 task.group);
    const std::int32_t within = number - task.first_items[index];
    item.kv_head = within % task.args.layout.num_kv_heads;
    item.tile = item.rows.tiles(kWideTile) - 1 - within / task.args.layout.num_kv_heads;
    return true;
  }
};

// Where things lie in shared memory, from an address that is a multiple of 1024.
template <int kDims>
struct WideMemory {
  static constexpr std::int32_t kHalves = (kDims + 63) / 64;
  static constexpr std::int32_t kColumns = 64 * kHalves;  // dims that values are multiplied for
  static constexpr std::int32_t kQueryBytes = kHalves * kWideRows * 128;  // of a warpgroup
  static constexpr std::int32_t kHalfBytes = kRangeKeys * 128;            // of keys
  static constexpr std::int32_t kBufferBytes = kHalves * kHalfBytes;
  static constexpr std::int32_t kQuarterBytes = kBufferBytes / 4;  // of values
  static constexpr std::int32_t kBuffers = ((227 << 10) - 2048 - 2 * kQueryBytes) / kBufferBytes;
  static constexpr std::int32_t kQuarters = 4 * kBuffers;
  static constexpr std::int32_t kQueries = 0;
  static constexpr std::int32_t kData = 2 * kQueryBytes;
  static constexpr std::int32_t kBarriers = kData + kBuffers * kBufferBytes;
  static constexpr std::int32_t kBytes = kBarriers + kQuarters * 16 + 1024;
  static_assert(kBuffers >= 3);
};

// Copies four bytes, the last ones zero where `bytes` are fewer.
__device__ inline void copy_word(const std::byte* from, std::uint32_t to) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_word(const std::byte* from, std::uint32_t to, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void store_words(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ inline void commit_words() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// What this thread wrote to shared memory is seen by wgmma of threads that it tells of it.
__device__ inline void fence_for_wgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A warp of the four that copy: of each quarter it has 16 keys.
template <int kDims>
struct WideCopier {
  using Memory = WideMemory<kDims>;
  static constexpr int kLag = 3;  // quarters that are on their way

  const WideTask& task;
  std::uint32_t data;
  RingPlace ring;  // the next quarter
  RingPlace done;  // the first that the others were not told of
  int warp;
  int lane;
  int pending = 0;

  __device__ void tell() {
    fence_for_wgmma();
    __syncwarp();
    if (lane == 0) paged_arrive(done.full());
    done.advance();
    --pending;
  }
  __device__ void tell_all() {
    wait_copied<0>();
    while (pending > 0) tell();
  }
  __device__ void begin_quarter() {
    if (__all_sync(~0U, ring.is_empty())) return;
    tell_all();
    ring.wait_empty();
  }
  __device__ void end_quarter() {
    commit_words();
    ring.advance();
    if (++pending <= kLag) return;
    wait_copied<kLag>();
    tell();
  }

  // Keys lie in rows of 64 dims. Lane (p, s) has slot s of 8 and word p of 4.
  __device__ void copy_keys(const std::byte* keys, int quarter) {
    const std::int32_t block_size = task.args.layout.block_size;
    const int slot = lane % 8;
    const int word = lane / 8;
    const std::byte* from = keys + (word * block_size + slot) * 4;
    const std::uint32_t row = data + ring.index / 4 * Memory::kBufferBytes +
                              (quarter * kQuarterKeys + warp * 16 + slot) * 128 + word * 4;
#pragma unroll
    for (int chunk = 0; chunk < kDims / 8; ++chunk) {
      const std::uint32_t to = row + chunk / 8 * Memory::kHalfBytes + ((chunk % 8 ^ slot) << 4);
      copy_word(from, to);
      copy_word(from + 32, to + 1024);
      from += 16 * block_size;
    }
  }

  // Values lie in rows of 64 keys. Lane (p, d) has dim d of 8 and word p of 4; `left`: keys from
  // the warp's first on that some row sees.
  template <bool kAll>
  __device__ void copy_values(const std::byte* values, std::int32_t left) {
    const int dim = lane % 8;
    const int word = lane / 8;
    const std::byte* from = values + (word * kDims + dim) * 4;
    const std::uint32_t row = data + ring.index / 4 * Memory::kBufferBytes +
                              ring.index % 4 * Memory::kQuarterBytes + dim * 128 + word * 4;
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      const std::uint32_t to = row + ((2 * warp + chunk ^ dim) << 4);
      const std::byte* const of_chunk = from + chunk * 16 * kDims;
      const int bytes = 2 * min(max(left - chunk * 8 - 2 * word, 0), 2);
#pragma unroll
      for (int eight = 0; eight < kDims / 8; ++eight) {
        if constexpr (kAll) {
          copy_word(of_chunk + eight * 32, to + eight * 1024);
        } else {
          copy_word(of_chunk + eight * 32, to + eight * 1024, bytes);
        }
      }
    }
  }

  __device__ void copy_range(const WideItem& item, const RowTile& tile, std::int32_t range) {
    const KvLayout& layout = task.args.layout;
    const std::int32_t first = range * kRangeKeys;
    // A lane has the block of 16 keys.
    const std::int32_t own = first + lane % 16 * 16;
    const BlockId own_block =
        tile.sees_any(own, 16)
            ? task.inputs
                  .block_tables[item.sequence * task.inputs.table_stride + own / layout.block_size]
            : kNullBlock;
    for (int quarter = 0; quarter < 4; ++quarter) {
      const BlockId block = __shfl_sync(~0U, own_block, quarter * 4 + warp);
      begin_quarter();
      if (block >= 0) {
        const std::int32_t slot = warp * 16 % layout.block_size;
        copy_keys(task.kv.keys_of(block, item.kv_head) + slot * 4, quarter);
      }
      end_quarter();
    }
    for (int quarter = 0; quarter < 4; ++quarter) {
      const BlockId block = __shfl_sync(~0U, own_block, quarter * 4 + warp);
      const std::int32_t key = first + quarter * kQuarterKeys + warp * 16;
      begin_quarter();
      // Weights of keys that no row sees are zero; their values must be numbers.
      const std::int32_t left = block < 0 ? 0 : tile.key_end - key;
      const std::byte* const values = task.kv.values_of(max(block, 0), item.kv_head) +
                                      warp * 16 % layout.block_size / 2 * kDims * 4;
      if (left >= 16) {
        copy_values<true>(values, left);
      } else {
        copy_values<false>(values, left);
      }
      end_quarter();
    }
  }

  __device__ void run() {
    WideItem item;
    for (std::int32_t round = 0; WideItem::find(task, round, item); ++round) {
      const RowTile tile = RowTile::of(task.args, item.rows, item.tile, kWideTile);
      for (std::int32_t range = tile.range_begin(); range < tile.range_end(); ++range) {
        copy_range(item, tile, range);
      }
    }
    tell_all();
  }
};

}  // namespace quire::cuda
