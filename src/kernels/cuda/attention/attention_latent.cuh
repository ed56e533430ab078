// What blocks of attention over latents do and share: sizes, the order of their work, and the warps
// that bring keys into shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>
#include <utility>

#include "kernels/cuda/async_copies.cuh"
#include "kernels/cuda/attention/attention_partials.cuh"

namespace quire::cuda {

inline constexpr int kLatentKeyDims = 576;
inline constexpr int kLatentValueDims = 512;  // the last ones of a key
inline constexpr int kLatentRows = 64;        // of a unit
inline constexpr int kLatentTile = 64;        // keys
// A panel: 64 numbers of 64 rows, 128 bytes a row, in the 128-byte swizzle.
inline constexpr int kPanelBytes = 64 * 128;
inline constexpr int kKeyPanels = kLatentKeyDims / 64;
inline constexpr int kKeyTileBytes = kKeyPanels * kPanelBytes;
inline constexpr int kTileStages = 2;
// Two warpgroups multiply, a half of the values each; one brings keys.
inline constexpr int kMultiplyThreads = 256;
inline constexpr int kLatentThreads = 384;

struct LatentShared {
  std::byte queries[kKeyTileBytes];
  std::byte keys[kTileStages][kKeyTileBytes];
  std::byte weights[kPanelBytes];  // 64 rows, 64 keys
  std::uint64_t full[kTileStages];
  std::uint64_t empty[kTileStages];
  // Of a tile's keys, those that are not finite: whether each warp that brings keys has some, and
  // which. In shared memory they are zeros, so that rows that do not see them stay as they are.
  std::uint8_t has_spoiled[kTileStages][4];
  std::uint8_t spoiled[kTileStages][kLatentTile];
  float largest[kLatentRows];  // score of the range so far, not yet scaled
  float factors[kLatentRows];  // of sums, for the tile
  float totals[2][kLatentRows];
  SoftmaxSum sums[kLatentRows];    // of the ranges so far
  JoinFactors joins[kLatentRows];  // with the range that is done
};

static_assert(sizeof(LatentShared) <= 227 * 1024);

// How a step is done. Ranges of a unit may be cut into pieces of as many ranges, the last one of
// fewer. The first piece of a unit joins its ranges; of others each range is a partial result of
// its own, as it comes after those that another block joins.
struct LatentWork {
  UnitShape shape;
  std::int32_t first_unit = 0;
  std::int32_t units = 0;
  std::int32_t piece_ranges = 1;  // at most
  std::int32_t pieces = 1;        // of a unit, at most
  // Sums of values are kept as threads have them: [warpgroup][warp][32][lane], four at a time.
  std::int32_t warps = 4;      // of a warpgroup that have rows
  float4* states = nullptr;    // of each block, while it joins a whole unit
  float4* values = nullptr;    // [units][slots]; slot 0: the first piece, slot i: range i
  SoftmaxSum* sums = nullptr;  // [units][slots][kLatentRows]
  std::int32_t slots = 0;

  __host__ __device__ std::int64_t slot_size() const { return std::int64_t{2048} * warps; }
  __device__ std::int64_t slot(std::int32_t unit, std::int32_t range) const {
    return std::int64_t{unit} * slots + range;
  }
  __device__ std::int32_t pieces_of(std::int32_t ranges) const {
    return (ranges + piece_ranges - 1) / piece_ranges;
  }
};

struct LatentPiece {
  AttentionUnit unit;
  std::int32_t index = 0;  // of the unit in this launch
  std::int32_t first_range = 0;
  std::int32_t end_range = 0;
  std::int32_t unit_ranges = 0;

  __device__ bool is_whole() const { return first_range == 0 && end_range == unit_ranges; }
  __device__ std::int32_t first_tile() const { return first_range * (kRangeKeys / kLatentTile); }
  __device__ std::int32_t end_tile() const {
    return min(end_range * (kRangeKeys / kLatentTile), unit.last_position() / kLatentTile + 1);
  }
};

// False where the unit has no such piece.
__device__ inline bool find_piece(const AttentionArgs& args, const AttentionInputs& inputs,
                                  const LatentWork& work, std::int32_t unit, std::int32_t number,
                                  LatentPiece& piece) {
  if (!find_unit(args, inputs, work.shape, work.first_unit + unit, piece.unit)) return false;
  piece.index = unit;
  piece.unit_ranges = piece.unit.last_position() / kRangeKeys + 1;
  const std::int32_t count = work.pieces_of(piece.unit_ranges);
  const std::int32_t size = (piece.unit_ranges + count - 1) / count;
  piece.first_range = number * size;
  piece.end_range = min(piece.first_range + size, piece.unit_ranges);
  return piece.first_range < piece.end_range;
}

// The block's next piece. Later queries see more keys and come first; blocks take turns to and fro,
// so that all have about as much to do.
__device__ inline bool next_piece(const AttentionArgs& args, const AttentionInputs& inputs,
                                  const LatentWork& work, std::int32_t& turn, LatentPiece& piece) {
  const auto blocks = static_cast<std::int32_t>(gridDim.x);
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t count = work.units * work.pieces;
  for (; turn * blocks < count; ++turn) {
    const std::int32_t item = turn * blocks + (turn % 2 == 0 ? block : blocks - 1 - block);
    if (item < count && find_piece(args, inputs, work, work.units - 1 - item % work.units,
                                   item / work.units, piece)) {
      ++turn;
      return true;
    }
  }
  return false;
}

__device__ inline void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

// What threads wrote to shared memory before is seen by products after a barrier.
__device__ inline void fence_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// How a thread reads the numbers of four neighbouring slots: in blocks of 16 they lie side by side.
enum class KeyAccess : std::uint8_t { kBlocksOf16, kAnyBlocks };

// Where the keys of a thread's four slots of a tile begin, and how many of them exist. Others are
// read as if they were keys that do.
template <KeyAccess kAccess>
struct KeySource {
  static constexpr int kPointers = kAccess == KeyAccess::kAnyBlocks ? 4 : 1;
  const std::byte* keys[kPointers];
  int count;
};

// Tiles of the block's pieces, one after the other, as a thread that brings keys sees them.
template <KeyAccess kAccess>
class KeyTiles {
 public:
  // Four slots from `first_slot` on; numbers begin at `offset` from where a key does.
  __device__ KeyTiles(int first_slot, std::int64_t offset)
      : first_slot_(first_slot), offset_(offset) {}

  __device__ bool next(const AttentionArgs& args, const AttentionInputs& inputs,
                       const LatentWork& work, KeySource<kAccess>& source) {
    const KvLayout& layout = args.layout;
    if (++tile_ >= end_) {
      LatentPiece piece;
      if (!next_piece(args, inputs, work, turn_, piece)) return false;
      tile_ = piece.first_tile();
      end_ = piece.end_tile();
      last_ = piece.unit.last_position();
      blocks_ = inputs.block_tables + piece.unit.tile.sequence * inputs.table_stride;
      keys_ = args.kv + layout.keys_offset(0, piece.unit.kv_head) + offset_;
    }
    const std::int32_t position = tile_ * kLatentTile + first_slot_;
    source.count = min(max(last_ + 1 - position, 0), 4);
    const int block_size = kAccess == KeyAccess::kBlocksOf16 ? 16 : layout.block_size;
#pragma unroll
    for (int i = 0; i < KeySource<kAccess>::kPointers; ++i) {
      const std::int32_t at = kAccess == KeyAccess::kAnyBlocks ? min(position + i, last_)
                                                               : min(position, last_ / 4 * 4);
      source.keys[i] =
          keys_ + static_cast<std::uint64_t>(blocks_[at / block_size]) * layout.block_stride() +
          static_cast<std::int64_t>(at % block_size) * 4;
    }
    return true;
  }

 private:
  const int first_slot_;
  const std::int64_t offset_;
  std::int32_t turn_ = 0;
  std::int32_t tile_ = 0;
  std::int32_t end_ = 0;
  std::int32_t last_ = 0;
  const BlockId* blocks_ = nullptr;
  const std::byte* keys_ = nullptr;
};

// Eight numbers of four keys: word i has two numbers of each.
struct KeyWords {
  uint4 words[4];
};

// `step`: bytes from two numbers to the next two.
template <KeyAccess kAccess>
__device__ KeyWords load_words(const KeySource<kAccess>& source, int panel, std::uint32_t step) {
  KeyWords to;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint4& w = to.words[i];
    const std::uint32_t at = static_cast<std::uint32_t>(32 * panel + i) *
                             (kAccess == KeyAccess::kBlocksOf16 ? 64 : step);
    if constexpr (kAccess != KeyAccess::kAnyBlocks) {
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                   : "l"(source.keys[0] + at));
    } else {
      const auto load = [&](int slot) {
        return *reinterpret_cast<const std::uint32_t*>(source.keys[slot] + at);
      };
      w = {load(0), load(1), load(2), load(3)};
    }
  }
  return to;
}

// Writes them as eight numbers of a key side by side. `row`: of the first of the four keys in a
// panel's shared memory; `chunk`: which eight of the panel's numbers. spoiled[i] becomes NaN where
// a number of key i is not finite.
__device__ inline void store_words(const KeyWords& from, int count, std::uint32_t panel, int row,
                                   int chunk, __nv_bfloat162 (&spoiled)[4]) {
  const __nv_bfloat162 zero = __float2bfloat162_rn(0.0F);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t numbers[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint4& w = from.words[k];
      numbers[k] = i == 0 ? w.x : i == 1 ? w.y : i == 2 ? w.z : w.w;
      if (i >= count) numbers[k] = 0;
      spoiled[i] = __hfma2(*reinterpret_cast<const __nv_bfloat162*>(&numbers[k]), zero, spoiled[i]);
    }
    const std::uint32_t to =
        panel + static_cast<std::uint32_t>((row + i) * 128 + ((chunk ^ ((row + i) & 7)) << 4));
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(numbers[0]),
                 "r"(numbers[1]), "r"(numbers[2]), "r"(numbers[3])
                 : "memory");
  }
}

// Warps that bring keys: each has 16 keys of a tile. Loads run kDepth panels ahead.
template <KeyAccess kAccess, int kDepth>
__device__ void bring_keys(const AttentionArgs& args, const AttentionInputs& inputs,
                           const LatentWork& work, LatentShared& shared, int thread) {
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int row = 16 * warp + 4 * (lane / 8);
  const int chunk = lane % 8;
  const auto step = static_cast<std::uint32_t>(args.layout.block_size) * 4;
  KeyTiles<kAccess> tiles(row, std::int64_t{4} * chunk * step);
  KeySource<kAccess> source;
  if (!tiles.next(args, inputs, work, source)) return;
  KeyWords ahead[kDepth];
#pragma unroll
  for (int i = 0; i < kDepth; ++i) ahead[i] = load_words(source, i, step);

  int stage = 0;
  std::uint32_t parity = 1;
  // One tile, whose first panel is ahead[kFirst]; false if it was the last one.
  const auto bring = [&]<int kFirst>() {
    KeySource<kAccess> next = source;
    const bool more = tiles.next(args, inputs, work, next);
    __nv_bfloat162 spoiled[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) spoiled[i] = __float2bfloat162_rn(0.0F);
    const std::uint32_t to = shared_address(shared.keys[stage]);
    barrier_wait(shared_address(&shared.empty[stage]), parity);
#pragma unroll
    for (int panel = 0; panel < kKeyPanels; ++panel) {
      KeyWords& words = ahead[(kFirst + panel) % kDepth];
      store_words(words, source.count, to + static_cast<std::uint32_t>(panel * kPanelBytes), row,
                  chunk, spoiled);
      if (panel + kDepth < kKeyPanels) {
        words = load_words(source, panel + kDepth, step);
      } else if (more) {
        words = load_words(next, panel + kDepth - kKeyPanels, step);
      }
    }
    std::uint32_t which = 0;  // a byte for each of the four keys
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t bits = *reinterpret_cast<const std::uint32_t*>(&spoiled[i]) & 0x7FFF7FFFU;
      which |= (bits != 0 ? 1U : 0U) << (8 * i);
    }
    for (int other = 1; other < 8; other *= 2) {
      which |= __shfl_xor_sync(0xFFFFFFFFU, which, other);
    }
    const bool any = __any_sync(0xFFFFFFFFU, which != 0);
    if (any) {
      for (int i = 0; i < 4; ++i) {
        if ((which >> (8 * i) & 1U) == 0) continue;
        for (int panel = 0; panel < kKeyPanels; ++panel) {
          *reinterpret_cast<uint4*>(shared.keys[stage] + panel * kPanelBytes + (row + i) * 128 +
                                    ((chunk ^ ((row + i) & 7)) << 4)) = uint4{};
        }
      }
    }
    if (lane == 0) shared.has_spoiled[stage][warp] = any ? 1 : 0;
    if (chunk == 0) *reinterpret_cast<std::uint32_t*>(&shared.spoiled[stage][row]) = which;
    fence_products();
    arrive(shared.full[stage]);
    stage = (stage + 1) % kTileStages;
    if (stage == 0) parity ^= 1;
    source = next;
    return more;
  };
  // After kDepth tiles the first panel is ahead[0] again.
  const auto bring_all = [&]<std::size_t... kTiles>(std::index_sequence<kTiles...>) {
    return (bring.template operator()<static_cast<int>(kTiles) * kKeyPanels % kDepth>() && ...);
  };
  while (bring_all(std::make_index_sequence<kDepth>())) {
  }
}

}  // namespace quire::cuda
