// Turns keys and values for attention_paged_wide.h: what lies in pairs of dimensions, or of tokens,
// is moved as 4-byte words, of which a thread has four by four.
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_paged_wide.cuh"
#include "kernels/cuda/pdl_launch.cuh"

namespace quire::cuda {
namespace {

constexpr int kTurnThreads = 256;
constexpr std::int32_t kBlockKeys = 16;  // block sizes are multiples of it

// The keys that a block of threads turns, a quarter of a range of a KV head.
struct TurnUnit {
  const WideTask& task;
  std::int32_t sequence;
  std::int32_t kv_head;
  std::int32_t first_key;
  std::int32_t quarter;
  std::int32_t key_begin;  // seen by some row
  std::int32_t key_end;
  std::byte* to;

  __device__ static TurnUnit of(const WideTask& task, std::int32_t number) {
    const std::int32_t quarter = number % 4;
    number /= 4;
    std::int32_t index = 0;
    while (number >= task.first_ranges[index + 1]) ++index;
    const SequenceRows rows = task.rows_of(index);
    const SeenRanges ranges = SeenRanges::of(task.args, rows);
    const std::int32_t within = number - task.first_ranges[index];
    const std::int32_t range = ranges.begin + within % ranges.count();
    const TurnedRange turned = {task.args.layout.head_dim};
    return {.task = task,
            .sequence = task.sequences[index],
            .kv_head = task.first_head + within / ranges.count(),
            .first_key = range * kRangeKeys + quarter * kQuarterKeys,
            .quarter = quarter,
            .key_begin = first_visible_key(task.args, rows.first_position),
            .key_end = rows.first_position + rows.queries,
            .to = task.turned + std::int64_t{number} * turned.bytes()};
  }

  // The block of 16 keys with this one; negative where no row sees any of them.
  __device__ BlockId block_of(std::int32_t key) const {
    const std::int32_t first = key / kBlockKeys * kBlockKeys;
    if (first >= key_end || first + kBlockKeys <= key_begin) return kNullBlock;
    return task.inputs
        .block_tables[sequence * task.inputs.table_stride + key / task.args.layout.block_size];
  }
  __device__ void store(std::int32_t at, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                        std::uint32_t d) const {
    *reinterpret_cast<uint4*>(to + at) = make_uint4(a, b, c, d);
  }
  // Four by four words of rows that are `stride` bytes apart.
  __device__ static void load(const std::byte* from, std::int32_t stride, uint4 (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = *reinterpret_cast<const uint4*>(from + i * stride);
  }

  // Eight dims of four keys.
  __device__ void turn_keys(std::int32_t dim, std::int32_t within) const {
    const KvLayout& layout = task.args.layout;
    const std::int32_t key = first_key + within;
    const BlockId block = block_of(key);
    uint4 words[4] = {};
    if (block >= 0) {
      load(task.kv.keys_of(block, kv_head) +
               (dim / 2 * layout.block_size + key % layout.block_size) * 4,
           layout.block_size * 4, words);
    }
    const TurnedRange turned = {layout.head_dim};
    const std::int32_t in_range = quarter * kQuarterKeys + within;
    store(turned.keys_at(in_range, dim), words[0].x, words[1].x, words[2].x, words[3].x);
    store(turned.keys_at(in_range + 1, dim), words[0].y, words[1].y, words[2].y, words[3].y);
    store(turned.keys_at(in_range + 2, dim), words[0].z, words[1].z, words[2].z, words[3].z);
    store(turned.keys_at(in_range + 3, dim), words[0].w, words[1].w, words[2].w, words[3].w);
  }

  // Four dims of the values of eight keys. Those that no row sees have weights of zero, but must be
  // numbers: memory that nobody wrote may not be.
  __device__ void turn_values(std::int32_t dim, std::int32_t within) const {
    const KvLayout& layout = task.args.layout;
    const std::int32_t key = first_key + within;
    const BlockId block = block_of(key);
    uint4 words[4] = {};
    if (block >= 0) {
      load(task.kv.values_of(block, kv_head) +
               (key % layout.block_size / 2 * layout.head_dim + dim) * 4,
           layout.head_dim * 4, words);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t left = key_end - key - 2 * i;
      const std::uint32_t seen = left >= 2 ? ~0U : left == 1 ? 0xFFFFU : 0U;
      words[i].x &= seen;
      words[i].y &= seen;
      words[i].z &= seen;
      words[i].w &= seen;
    }
    const TurnedRange turned = {layout.head_dim};
    const std::int32_t in_range = quarter * kQuarterKeys + within;
    store(turned.values_at(in_range, dim), words[0].x, words[1].x, words[2].x, words[3].x);
    store(turned.values_at(in_range, dim + 1), words[0].y, words[1].y, words[2].y, words[3].y);
    store(turned.values_at(in_range, dim + 2), words[0].z, words[1].z, words[2].z, words[3].z);
    store(turned.values_at(in_range, dim + 3), words[0].w, words[1].w, words[2].w, words[3].w);
  }
};

__global__ void __launch_bounds__(kTurnThreads) turn(const __grid_constant__ WideTask task) {
  let_next_start();
  wait_for_previous();
  const TurnUnit unit = TurnUnit::of(task, static_cast<std::int32_t>(blockIdx.x));
  const std::int32_t eights = task.args.layout.head_dim / 8;
  const std::int32_t tasks = eights * (kQuarterKeys / 4);  // of keys, and as many of values
  // Neighbouring threads write rows of 128 bytes.
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < tasks; i += kTurnThreads) {
    unit.turn_keys(i % eights * 8, i / eights * 4);
    unit.turn_values(i / 8 * 4, i % 8 * 8);
  }
}

}  // namespace

void turn_ranges(const Launch& launch, const WideTask& task) {
  const auto blocks = static_cast<unsigned>(4 * task.first_ranges[task.num_sequences]);
  launch_dependent(turn, dim3(blocks), dim3(kTurnThreads), 0, launch.stream, task);
}

}  // namespace quire::cuda
