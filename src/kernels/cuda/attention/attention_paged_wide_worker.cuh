// A warpgroup of attention_paged_wide.h that computes.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_paged_feed.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_wgmma.cuh"
#include "kernels/cuda/attention/attention_paged_wide.cuh"

namespace quire::cuda {

// Of a thread, for half a range: two rows, a quarter of the keys.
inline constexpr int kHalfScores = kRangeKeys / 4;
inline constexpr int kSteps = kRangeKeys / 16;
inline constexpr int kFirstTurn = 4;  // named barriers

// Weights are in their registers before what follows, and stay there up to it: the assembler would
// put them off, and takes registers of A as free while a product still reads them. `never` is zero,
// which the compiler must not know; `address`: any in shared memory.
__device__ inline void keep_weights(const std::uint32_t (*w)[4], int never, std::uint32_t address) {
  asm volatile(
      "{.reg .pred p; setp.eq.b32 p, %32, 0; @p bra none;\n"
      "st.shared.v4.b32 [%33 + 0], {%0, %1, %2, %3};\n"
      "st.shared.v4.b32 [%33 + 16], {%4, %5, %6, %7};\n"
      "st.shared.v4.b32 [%33 + 32], {%8, %9, %10, %11};\n"
      "st.shared.v4.b32 [%33 + 48], {%12, %13, %14, %15};\n"
      "st.shared.v4.b32 [%33 + 64], {%16, %17, %18, %19};\n"
      "st.shared.v4.b32 [%33 + 80], {%20, %21, %22, %23};\n"
      "st.shared.v4.b32 [%33 + 96], {%24, %25, %26, %27};\n"
      "st.shared.v4.b32 [%33 + 112], {%28, %29, %30, %31};\n"
      "none: }" ::"r"(w[0][0]),
      "r"(w[0][1]), "r"(w[0][2]), "r"(w[0][3]), "r"(w[1][0]), "r"(w[1][1]), "r"(w[1][2]),
      "r"(w[1][3]), "r"(w[2][0]), "r"(w[2][1]), "r"(w[2][2]), "r"(w[2][3]), "r"(w[3][0]),
      "r"(w[3][1]), "r"(w[3][2]), "r"(w[3][3]), "r"(w[4][0]), "r"(w[4][1]), "r"(w[4][2]),
      "r"(w[4][3]), "r"(w[5][0]), "r"(w[5][1]), "r"(w[5][2]), "r"(w[5][3]), "r"(w[6][0]),
      "r"(w[6][1]), "r"(w[6][2]), "r"(w[6][3]), "r"(w[7][0]), "r"(w[7][1]), "r"(w[7][2]),
      "r"(w[7][3]), "r"(never), "r"(address)
      : "memory");
}

// An operand some bytes on in the same 256 KiB, which takes one addition.
__device__ inline std::uint64_t operand_at(std::uint64_t first, int bytes) {
  return (first >> 32 << 32) | (static_cast<std::uint32_t>(first) + bytes / 16);
}

// A warpgroup that computes. Of its rows, a warp has 16, and a lane rows lane / 4 and lane / 4 + 8
// of these. Registers are short: what is easily found again is not kept.
//
// The scores of a range are multiplied as soon as the values of the one before are, before their
// sums are joined; while a warpgroup computes weights, the other multiplies.
template <int kDims>
struct WideWorker {
  using Memory = WideMemory<kDims>;
  using Scores = float[2][kHalfScores];               // of keys 0 to 127 and 128 to 255 of a range
  static constexpr int kSums = Memory::kColumns / 2;  // of a thread

  const WideTask& task;
  std::uint32_t shared;
  RingPlace ring;              // the next piece
  std::uint32_t done_barrier;  // of the first piece that the copier was not told of
  int number;                  // of the warpgroup
  int warp;                    // of the warpgroup
  int lane;
  RowTile tile;                 // of the warpgroup
  std::int32_t first_position;  // of the sequence's queries
  std::int32_t query_begin;
  std::int32_t kv_head;
  std::int32_t round = 0;
  std::int32_t range = 0;
  std::int32_t key_end = 0;  // of those that some row of the block sees
  float largest[2];
  float totals[2];
  // Of the range before: its sums, and the factors that join them.
  float part[kSums];
  PagedJoin factors[2];
  float sums[kSums];

  __device__ int row_of(int half) const { return 16 * warp + 8 * half + lane / 4; }
  __device__ std::int32_t query_of(int row) const { return (tile.first_row + row) / task.group; }
  __device__ std::int32_t head_of(int row) const {
    return kv_head * task.group + (tile.first_row + row) % task.group;
  }
  __device__ std::int32_t position_of(int half) const {
    return first_position + query_of(row_of(half));
  }
  // The warpgroups take turns with the tensor cores: products of both at the same time would end
  // at the same time, and then both compute weights.
  __device__ void take_turn() const { paged_meet(kFirstTurn + number, 256); }
  __device__ void pass_turn() const {
    asm volatile("bar.arrive %0, 256;" ::"r"(kFirstTurn + 1 - number) : "memory");
  }
  // The first piece that is not free yet.
  __device__ void free_piece() {
    if (lane == 0) paged_arrive(done_barrier);
    done_barrier += 8;
    if (done_barrier == ring.barriers + 2 * ring.distance) done_barrier -= ring.distance;
  }

  // Of the next item; they came in pieces of their own.
  __device__ void begin_queries() {
    barrier_wait(QueryBarriers<kDims>{shared}.full(number), round & 1);
    ring.advance(2);
    done_barrier += 16;
    if (done_barrier >= ring.barriers + 2 * ring.distance) done_barrier -= ring.distance;
  }
  // The first range of a round; false where there is none left.
  __device__ bool find_range(std::int32_t of_round) {
    WideItem item;
    if (!WideItem::find(task, of_round, item)) return false;
    const RowTile block = item.row_tile(task);
    range = block.range_begin();
    key_end = block.key_end;
    return true;
  }
  __device__ void begin_item() {
    WideItem item;
    WideItem::find(task, round, item);
    tile = RowTile::of(task.args, item.rows, item.tile * 2 + number, kWideRows);
    first_position = item.rows.first_position;
    query_begin = item.rows.query_begin;
    kv_head = task.first_head + item.head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = -INFINITY;
      totals[half] = 0.0F;
    }
  }

  // Products with half a range's keys; not done at the end.
  __device__ void multiply_keys(float (&scores)[kHalfScores]) {
    const std::uint32_t queries = shared + Memory::kQueries + number * Memory::kQueryBytes;
    const std::uint32_t keys = shared + Memory::kData + ring.index * Memory::kPieceBytes;
    const std::uint64_t first_a = swizzled_operand(queries);
    const std::uint64_t first_b = swizzled_operand(keys);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) {
      const int within = step % 4 * 32;
      const std::uint64_t a = operand_at(first_a, step / 4 * (kWideRows * 128) + within);
      const std::uint64_t b = operand_at(first_b, step / 4 * (kHalfKeys * 128) + within);
      if (step == 0) {
        multiply_shared<true>(scores, a, b);
      } else {
        multiply_shared<false>(scores, a, b);
      }
    }
    wgmma_commit();
    ring.advance();
  }

  // Calls fn(score, row's half, key) for all scores of the thread.
  template <int kHalves, typename F>
  __device__ void for_each_score(Scores& scores, const F& fn) const {
    const std::int32_t first_key = range * kRangeKeys + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHalves * kHalfScores; ++i) {
      fn(scores[i / kHalfScores][i % kHalfScores], i % 4 / 2, first_key + i / 4 * 8 + i % 2);
    }
  }

  __device__ bool changes() const {
    return task.args.soft_cap > 0.0F || task.args.alibi_slopes != nullptr ||
           !tile.sees_all_of(range);
  }
  template <int kHalves>
  __device__ void change(Scores& scores) const {
    const AttentionArgs& args = task.args;
    if (args.soft_cap > 0.0F) {
      const float cap = args.soft_cap * kLog2E;
      const float inverse = 1.0F / cap;
      for_each_score<kHalves>(
          scores, [&](float& score, int, std::int32_t) { score = capped(score, cap, inverse); });
    }
    if (args.alibi_slopes != nullptr) {
      const std::int32_t positions[2] = {position_of(0), position_of(1)};
      const float slopes[2] = {__fmul_rn(args.alibi_slopes[head_of(row_of(0))], kLog2E),
                               __fmul_rn(args.alibi_slopes[head_of(row_of(1))], kLog2E)};
      for_each_score<kHalves>(scores, [&](float& score, int half, std::int32_t key) {
        score = with_distance(score, slopes[half], key - positions[half]);
      });
    }
    const std::int32_t positions[2] = {position_of(0), position_of(1)};
    if ((range + 1) * kRangeKeys > tile.common_end) {
      for_each_score<kHalves>(scores, [&](float& score, int half, std::int32_t key) {
        if (key > positions[half]) score = -INFINITY;
      });
    }
    if (range * kRangeKeys < tile.common_begin) {
      const std::int32_t first[2] = {first_visible_key(args, positions[0]),
                                     first_visible_key(args, positions[1])};
      for_each_score<kHalves>(scores, [&](float& score, int half, std::int32_t key) {
        if (key < first[half]) score = -INFINITY;
      });
    }
  }

  __device__ static void find_most(const float (&scores)[kHalfScores], float (&most)[4]) {
#pragma unroll
    for (int i = 0; i < kHalfScores; ++i) most[i % 8 / 2] = fmaxf(most[i % 8 / 2], scores[i]);
  }

  // The largest scores, when they have been multiplied.
  template <int kHalves>
  __device__ void finish_scores(bool ends, Scores& scores, float (&most)[4]) {
    most[0] = most[1] = most[2] = most[3] = -INFINITY;
    if constexpr (kHalves == 2) {
      wgmma_wait<1>();
      free_piece();
      find_most(scores[0], most);
    }
    wgmma_wait<0>();
    free_piece();
    if (ends && lane == 0) paged_arrive(QueryBarriers<kDims>{shared}.empty(number));
    if (kHalves == 1 || changes()) {
      change<kHalves>(scores);
      most[0] = most[1] = most[2] = most[3] = -INFINITY;
      find_most(scores[0], most);
    }
    if constexpr (kHalves == 2) find_most(scores[1], most);
  }

  // Weights as operand A; gives the factors that join the range.
  template <int kHalves>
  __device__ void weigh(Scores& scores, const float (&thread_most)[4],
                        std::uint32_t (&weights)[kHalves * kSteps / 2][4]) {
    float most[2];
    float references[2];
    float range_totals[2] = {0.0F, 0.0F};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = largest_of_quad(fmaxf(thread_most[half], thread_most[half + 2]));
      references[half] = reference_of(most[half]);
    }
#pragma unroll
    for (int group = 0; group < kHalves * kRangeGroups / 2; ++group) {
      float parts[2] = {0.0F, 0.0F};
#pragma unroll
      for (int i = 0; i < 16; i += 2) {
        const int half = i % 4 / 2;
        const float* const pair = &scores[group / 4][group % 4 * 16 + i];
        const float a = weight_of(pair[0], references[half]);
        const float b = weight_of(pair[1], references[half]);
        parts[half] = __fadd_rn(__fadd_rn(parts[half], a), b);
        weights[group * 2 + i / 8][i / 2 % 4] = two_bf16(a, b);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        range_totals[half] = __fadd_rn(range_totals[half], parts[half]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      factors[half] = PagedJoin::of(largest[half], most[half]);
      totals[half] = factors[half](totals[half], sum_of_quad(range_totals[half]));
    }
  }

  // Weighted sums of the range's values.
  template <int kHalves>
  __device__ void add_values(std::uint32_t (&weights)[kHalves * kSteps / 2][4]) {
    RingPlace second = ring;
    second.advance();
    ring.wait_full();
    if constexpr (kHalves == 2) second.wait_full();
    wgmma_fence();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const std::uint64_t first_b =
          swizzled_operand(shared + Memory::kData + ring.index * Memory::kPieceBytes);
#pragma unroll
      for (int step = 0; step < kSteps / 2; ++step) {
        const std::uint64_t b =
            operand_at(first_b, step / 4 * (Memory::kColumns * 128) + step % 4 * 32);
        if (half + step == 0) {
          multiply_first(part, weights[0], b);
        } else {
          WgmmaBf16<Memory::kColumns>::multiply(part, weights[half * kSteps / 2 + step], b, true);
        }
      }
      wgmma_commit();
      ring.advance();
    }
    if constexpr (kHalves == 2) {
      wgmma_wait<1>();
      free_piece();
    }
    wgmma_wait<0>();
    free_piece();
    keep(weights);
#pragma unroll
    for (int i = 0; i < kSums; ++i) part[i] = __fmul_rn(part[i], factors[i % 4 / 2].part);
  }
  template <int kCount>
  __device__ void keep(std::uint32_t (&weights)[kCount][4]) const {
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      keep_weights(&weights[i], task.group < 0 ? 1 : 0, shared + i * 16);
    }
  }

  __device__ void join() {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      sums[i] = __fmaf_rn(sums[i], factors[i % 4 / 2].before, part[i]);
  }

  __device__ void store() const {
    const AttentionArgs& args = task.args;
    const bool odd = lane % 2 != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      const std::int32_t head = head_of(row);
      const bool stores = row < tile.num_rows;
      const float factor =
          stores ? final_factor(largest[half], totals[half], args.sinks, head) : 0.0F;
      const std::int64_t query = query_begin + query_of(row);
      float* const to =
          args.out + (query * args.num_heads + head) * kDims + lane % 4 / 2 * 4 + (odd ? 8 : 0);
      // Of 16 columns, a lane has two and two; neighbours exchange them for four.
#pragma unroll
      for (int i = 0; i < kDims / 16; ++i) {
        const float* const own = &sums[8 * i + 2 * half];
        const float2 first = make_float2(__fmul_rn(own[0], factor), __fmul_rn(own[1], factor));
        const float2 second = make_float2(__fmul_rn(own[4], factor), __fmul_rn(own[5], factor));
        const float x = __shfl_xor_sync(~0U, odd ? first.x : second.x, 1);
        const float y = __shfl_xor_sync(~0U, odd ? first.y : second.y, 1);
        if (!stores) continue;
        *reinterpret_cast<float4*>(to + 16 * i) =
            odd ? make_float4(x, y, second.x, second.y) : make_float4(first.x, first.y, x, y);
      }
    }
  }

  // Of a range with as many halves, when the products with the first are on their way. False where
  // there is no other range.
  template <int kHalves>
  __device__ __forceinline__ bool compute(bool& starts, Scores& scores) {
    if constexpr (kHalves == 2) multiply_keys(scores[1]);
    pass_turn();
    if (starts) {
      if (round > 0) store();
      begin_item();
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
    }
    const bool ends = (range + 1) * kRangeKeys >= key_end;
    float most[4];
    finish_scores<kHalves>(ends, scores, most);
    std::uint32_t weights[kHalves * kSteps / 2][4];
    weigh<kHalves>(scores, most, weights);
    ++range;
    const bool more = !ends || find_range(++round);
    keep(weights);
    take_turn();
    add_values<kHalves>(weights);
    starts = ends;
    return more;
  }

  __device__ void run() {
    bool starts = find_range(0);
    factors[0] = factors[1] = {0.0F, 0.0F};
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = part[i] = 0.0F;
    if (number == 1) pass_turn();
    take_turn();
    bool more = true;
    while (more) {
      Scores scores;
      if (starts) begin_queries();
      const bool whole = has_second_half(range, key_end);
      ring.wait_full();
      multiply_keys(scores[0]);
      if (whole) ring.wait_full();
      join();
      more = whole ? compute<2>(starts, scores) : compute<1>(starts, scores);
    }
    pass_turn();
    join();
    store();
  }
};

}  // namespace quire::cuda
