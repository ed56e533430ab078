// A warpgroup of attention_paged_wide.h that computes.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_paged_feed.cuh"
#include "kernels/cuda/attention/attention_paged_math.cuh"
#include "kernels/cuda/attention/attention_paged_wgmma.cuh"
#include "kernels/cuda/attention/attention_paged_wide.cuh"

namespace quire::cuda {

inline constexpr int kHalfScores =
    kRangeKeys / 4;  // of a thread: two rows, a quarter of half the keys
inline constexpr int kSteps = kRangeKeys / 16;
inline constexpr int kFirstTurn = 4;  // named barriers

// Weights are in their registers before what follows, and stay there up to it: the assembler would
// put them off, and takes registers of A as free while a product still reads them. `never` is zero,
// which the compiler must not know; `address`: any in shared memory.
__device__ inline void keep_weights(const std::uint32_t (&w)[kSteps][4], int never,
                                    std::uint32_t address) {
  asm volatile(
      "{.reg .pred p; setp.eq.b32 p, %64, 0; @p bra none;\n"
      "st.shared.v4.b32 [%65 + 0], {%0, %1, %2, %3};\n"
      "st.shared.v4.b32 [%65 + 16], {%4, %5, %6, %7};\n"
      "st.shared.v4.b32 [%65 + 32], {%8, %9, %10, %11};\n"
      "st.shared.v4.b32 [%65 + 48], {%12, %13, %14, %15};\n"
      "st.shared.v4.b32 [%65 + 64], {%16, %17, %18, %19};\n"
      "st.shared.v4.b32 [%65 + 80], {%20, %21, %22, %23};\n"
      "st.shared.v4.b32 [%65 + 96], {%24, %25, %26, %27};\n"
      "st.shared.v4.b32 [%65 + 112], {%28, %29, %30, %31};\n"
      "st.shared.v4.b32 [%65 + 128], {%32, %33, %34, %35};\n"
      "st.shared.v4.b32 [%65 + 144], {%36, %37, %38, %39};\n"
      "st.shared.v4.b32 [%65 + 160], {%40, %41, %42, %43};\n"
      "st.shared.v4.b32 [%65 + 176], {%44, %45, %46, %47};\n"
      "st.shared.v4.b32 [%65 + 192], {%48, %49, %50, %51};\n"
      "st.shared.v4.b32 [%65 + 208], {%52, %53, %54, %55};\n"
      "st.shared.v4.b32 [%65 + 224], {%56, %57, %58, %59};\n"
      "st.shared.v4.b32 [%65 + 240], {%60, %61, %62, %63};\n"
      "none: }" ::"r"(w[0][0]),
      "r"(w[0][1]), "r"(w[0][2]), "r"(w[0][3]), "r"(w[1][0]), "r"(w[1][1]), "r"(w[1][2]),
      "r"(w[1][3]), "r"(w[2][0]), "r"(w[2][1]), "r"(w[2][2]), "r"(w[2][3]), "r"(w[3][0]),
      "r"(w[3][1]), "r"(w[3][2]), "r"(w[3][3]), "r"(w[4][0]), "r"(w[4][1]), "r"(w[4][2]),
      "r"(w[4][3]), "r"(w[5][0]), "r"(w[5][1]), "r"(w[5][2]), "r"(w[5][3]), "r"(w[6][0]),
      "r"(w[6][1]), "r"(w[6][2]), "r"(w[6][3]), "r"(w[7][0]), "r"(w[7][1]), "r"(w[7][2]),
      "r"(w[7][3]), "r"(w[8][0]), "r"(w[8][1]), "r"(w[8][2]), "r"(w[8][3]), "r"(w[9][0]),
      "r"(w[9][1]), "r"(w[9][2]), "r"(w[9][3]), "r"(w[10][0]), "r"(w[10][1]), "r"(w[10][2]),
      "r"(w[10][3]), "r"(w[11][0]), "r"(w[11][1]), "r"(w[11][2]), "r"(w[11][3]), "r"(w[12][0]),
      "r"(w[12][1]), "r"(w[12][2]), "r"(w[12][3]), "r"(w[13][0]), "r"(w[13][1]), "r"(w[13][2]),
      "r"(w[13][3]), "r"(w[14][0]), "r"(w[14][1]), "r"(w[14][2]), "r"(w[14][3]), "r"(w[15][0]),
      "r"(w[15][1]), "r"(w[15][2]), "r"(w[15][3]), "r"(never), "r"(address)
      : "memory");
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
  float largest[2];
  float totals[2];

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

  // The item's range begin and end.
  __device__ int2 begin_item(std::int32_t round) {
    WideItem item;
    WideItem::find(task, round, item);
    const RowTile block = item.row_tile(task);
    tile = RowTile::of(task.args, item.rows, item.tile * 2 + number, kWideRows);
    first_position = item.rows.first_position;
    query_begin = item.rows.query_begin;
    kv_head = task.first_head + item.head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = -INFINITY;
      totals[half] = 0.0F;
    }
    return make_int2(block.range_begin(), block.range_end());
  }

  // Products with half a range's keys; not done at the end.
  __device__ void multiply_keys(float (&scores)[kHalfScores]) {
    const std::uint32_t queries = shared + Memory::kQueries + number * Memory::kQueryBytes;
    const std::uint32_t keys = shared + Memory::kData + ring.index * Memory::kPieceBytes;
    ring.wait_full();
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) {
      const std::uint32_t within = step % 4 * 32;
      const std::uint64_t a = swizzled_operand(queries + step / 4 * (kWideRows * 128) + within);
      const std::uint64_t b = swizzled_operand(keys + step / 4 * (kHalfKeys * 128) + within);
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
  template <typename F>
  __device__ void for_each_score(Scores& scores, std::int32_t range, const F& fn) const {
    const std::int32_t first_key = range * kRangeKeys + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * kHalfScores; ++i) {
      fn(scores[i / kHalfScores][i % kHalfScores], i % 4 / 2, first_key + i / 4 * 8 + i % 2);
    }
  }

  __device__ bool changes(std::int32_t range) const {
    return task.args.soft_cap > 0.0F || task.args.alibi_slopes != nullptr ||
           !tile.sees_all_of(range);
  }
  __device__ void change(std::int32_t range, Scores& scores) const {
    const AttentionArgs& args = task.args;
    if (args.soft_cap > 0.0F) {
      const float cap = args.soft_cap * kLog2E;
      const float inverse = 1.0F / cap;
      for_each_score(scores, range,
                     [&](float& score, int, std::int32_t) { score = capped(score, cap, inverse); });
    }
    if (args.alibi_slopes != nullptr) {
      const std::int32_t positions[2] = {position_of(0), position_of(1)};
      const float slopes[2] = {__fmul_rn(args.alibi_slopes[head_of(row_of(0))], kLog2E),
                               __fmul_rn(args.alibi_slopes[head_of(row_of(1))], kLog2E)};
      for_each_score(scores, range, [&](float& score, int half, std::int32_t key) {
        score = with_distance(score, slopes[half], key - positions[half]);
      });
    }
    if (!tile.sees_all_of(range)) {
      const std::int32_t positions[2] = {position_of(0), position_of(1)};
      const std::int32_t first[2] = {first_visible_key(args, positions[0]),
                                     first_visible_key(args, positions[1])};
      for_each_score(scores, range, [&](float& score, int half, std::int32_t key) {
        if (key > positions[half] || key < first[half]) score = -INFINITY;
      });
    }
  }

  __device__ static void find_most(const float (&scores)[kHalfScores], float (&most)[2]) {
#pragma unroll
    for (int i = 0; i < kHalfScores; ++i) most[i % 4 / 2] = fmaxf(most[i % 4 / 2], scores[i]);
  }

  // The largest scores, when they have been multiplied.
  __device__ void finish_scores(std::int32_t range, bool ends, Scores& scores, float (&most)[2]) {
    most[0] = most[1] = -INFINITY;
    wgmma_wait<1>();
    free_piece();
    find_most(scores[0], most);
    wgmma_wait<0>();
    free_piece();
    if (ends && lane == 0) paged_arrive(QueryBarriers<kDims>{shared}.empty(number));
    if (changes(range)) {
      change(range, scores);
      most[0] = most[1] = -INFINITY;
      find_most(scores[0], most);
    }
    find_most(scores[1], most);
  }

  // Weights as operand A; gives the factors that join the range.
  __device__ void weigh(Scores& scores, const float (&thread_most)[2],
                        std::uint32_t (&weights)[kSteps][4], PagedJoin (&factors)[2]) {
    float most[2];
    float references[2];
    float range_totals[2] = {0.0F, 0.0F};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = largest_of_quad(thread_most[half]);
      references[half] = reference_of(most[half]);
    }
#pragma unroll
    for (int group = 0; group < kRangeGroups; ++group) {
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
  __device__ void add_values(std::uint32_t (&weights)[kSteps][4], float (&part)[kSums]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t values = shared + Memory::kData + ring.index * Memory::kPieceBytes;
      ring.wait_full();
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps / 2; ++step) {
        const std::uint64_t b =
            swizzled_operand(values + step / 4 * (Memory::kColumns * 128) + step % 4 * 32);
        if (half + step == 0) {
          multiply_first(part, weights[0], b);
        } else {
          WgmmaBf16<Memory::kColumns>::multiply(part, weights[half * kSteps / 2 + step], b, true);
        }
      }
      wgmma_commit();
      ring.advance();
    }
    wgmma_wait<1>();
    free_piece();
    wgmma_wait<0>();
    free_piece();
    keep_weights(weights, task.group < 0 ? 1 : 0, shared);
  }

  __device__ static void join(float (&sums)[kSums], const PagedJoin (&factors)[2],
                              const float (&part)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      sums[i] = __fmaf_rn(sums[i], factors[i % 4 / 2].before, part[i]);
  }

  __device__ void store(const float (&sums)[kSums]) const {
    const AttentionArgs& args = task.args;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= tile.num_rows) continue;
      const std::int32_t head = head_of(row);
      const float factor = final_factor(largest[half], totals[half], args.sinks, head);
      const std::int64_t query = query_begin + query_of(row);
      float* const to = args.out + (query * args.num_heads + head) * kDims + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kDims / 8; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) =
            make_float2(__fmul_rn(sums[4 * i + 2 * half], factor),
                        __fmul_rn(sums[4 * i + 2 * half + 1], factor));
      }
    }
  }

  __device__ void run() {
    const QueryBarriers<kDims> queries = {shared};
    std::int32_t round = 0;
    int2 ranges = make_int2(0, 0);
    bool starts = true;
    // Of the range before.
    float part[kSums];
    PagedJoin factors[2] = {};
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = part[i] = 0.0F;
    if (number == 1) pass_turn();
    take_turn();
    while (true) {
      Scores scores;
      if (starts) barrier_wait(queries.full(number), round & 1);
      multiply_keys(scores[0]);
      join(sums, factors, part);
      multiply_keys(scores[1]);
      pass_turn();
      if (starts) {
        if (round > 0) store(sums);
        ranges = begin_item(round);
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
      }
      const bool ends = ranges.x + 1 == ranges.y;
      float most[2];
      finish_scores(ranges.x, ends, scores, most);
      std::uint32_t weights[kSteps][4];
      weigh(scores, most, weights, factors);
      keep_weights(weights, task.group < 0 ? 1 : 0, shared);
      take_turn();
      add_values(weights, part);
#pragma unroll
      for (int i = 0; i < kSums; ++i) part[i] = __fmul_rn(part[i], factors[i % 4 / 2].part);
      ++ranges.x;
      starts = ends;
      if (!ends) continue;
      if (WideItem::number_of(task, ++round) < 0) break;
    }
    pass_turn();
    join(sums, factors, part);
    store(sums);
  }
};

}  // namespace quire::cuda
