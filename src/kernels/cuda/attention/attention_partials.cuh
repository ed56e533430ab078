// What kernels of attention have in common: which queries a block has, and how partial results of
// ranges (kernels/attention_scratch.h) become a row's. The order of every sum is fixed here, so
// that a row has the same bits whether one block saw all its ranges or many did.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention/attention.h"

namespace quire::cuda {

// Queries of one sequence, rows [begin, end) of the step, and the position of the first.
struct QueryTile {
  std::int32_t sequence = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t first_position = 0;
};

// Tiles of at most `queries` queries are numbered without gaps in a sequence but with some between
// sequences, so that a sequence's first number follows from where its queries begin.
__host__ __device__ inline std::int32_t first_tile_of(const std::int32_t* query_start_loc,
                                                      std::int32_t sequence, std::int32_t queries) {
  const std::int32_t begin = query_start_loc[sequence];
  return queries == 1 ? begin - query_start_loc[0]
                      : begin / queries - query_start_loc[0] / queries + sequence;
}

// False where the number is in a gap.
__device__ inline bool find_query_tile(const AttentionInputs& inputs, std::int32_t queries,
                                       std::int32_t number, QueryTile& tile) {
  std::int32_t low = 0;
  std::int32_t high = inputs.num_seqs;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (first_tile_of(inputs.query_start_loc, middle, queries) <= number ? low : high) = middle;
  }
  const std::int32_t first = inputs.query_start_loc[low];
  const std::int32_t last = inputs.query_start_loc[low + 1];
  tile.sequence = low;
  tile.begin = first + (number - first_tile_of(inputs.query_start_loc, low, queries)) * queries;
  tile.end = min(tile.begin + queries, last);
  tile.first_position = inputs.seq_lens[low] - last + tile.begin;
  return tile.begin < last;
}

// How a step's rows are given to blocks. A unit of work is a tile of queries with some of the heads
// that share a KV head, its rows query by query.
struct UnitShape {
  std::int32_t queries = 1;
  std::int32_t heads = 1;        // at most
  std::int32_t head_chunks = 1;  // units of a KV head

  // Units of at most `most_rows` rows, no wider than a sequence's queries.
  static UnitShape of(const AttentionArgs& args, std::int32_t most_rows, std::int32_t max_queries) {
    const std::int64_t group = args.num_heads / args.layout.num_kv_heads;
    UnitShape shape;
    shape.head_chunks = static_cast<std::int32_t>(ceil_div(group, most_rows));
    shape.heads = static_cast<std::int32_t>(ceil_div(group, shape.head_chunks));
    shape.queries = std::clamp(most_rows / shape.heads, 1, std::max(max_queries, 1));
    return shape;
  }
  __host__ __device__ std::int32_t units_of_tile(const AttentionArgs& args) const {
    return args.layout.num_kv_heads * head_chunks;
  }
  std::int64_t units(const AttentionInputs& inputs, const AttentionArgs& args) const {
    return std::int64_t{units_of_tile(args)} *
           first_tile_of(inputs.host_query_start_loc, inputs.num_seqs, queries);
  }
};

struct AttentionUnit {
  QueryTile tile;
  std::int32_t kv_head;
  std::int32_t first_head;
  std::int32_t heads;

  __device__ std::int32_t rows() const { return (tile.end - tile.begin) * heads; }
  __device__ std::int32_t position(std::int32_t row) const {
    return tile.first_position + row / heads;
  }
  __device__ std::int32_t last_position() const {
    return tile.first_position + tile.end - tile.begin - 1;
  }
  __device__ std::int64_t query(std::int32_t row) const { return tile.begin + row / heads; }
  __device__ std::int32_t head(std::int32_t row) const { return first_head + row % heads; }
};

// False where there is no such unit.
__device__ inline bool find_unit(const AttentionArgs& args, const AttentionInputs& inputs,
                                 const UnitShape& shape, std::int32_t number, AttentionUnit& unit) {
  const std::int32_t per_tile = shape.units_of_tile(args);
  const std::int32_t within = number % per_tile;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  const std::int32_t first = within % shape.head_chunks * shape.heads;
  unit.kv_head = within / shape.head_chunks;
  unit.first_head = unit.kv_head * group + first;
  unit.heads = min(shape.heads, group - first);
  return unit.heads > 0 && find_query_tile(inputs, shape.queries, number / per_tile, unit.tile);
}

// Of a row: the largest score, and the sum of the weights relative to it; none seen: 0.
struct SoftmaxSum {
  float largest = -INFINITY;
  float total = 0.0F;
};

// What weighted sums of values become when two partial results are joined: sums * before + part's *
// part. Neither is NaN because one of the two has seen nothing.
struct JoinFactors {
  float before;
  float part;
};

__device__ inline JoinFactors join(SoftmaxSum& sum, const SoftmaxSum& part) {
  const float largest = fmaxf(sum.largest, part.largest);
  JoinFactors factors;
  factors.before = sum.total == 0.0F ? 0.0F : expf(sum.largest - largest);
  factors.part = part.total == 0.0F ? 0.0F : expf(part.largest - largest);
  sum.total = __fmaf_rn(sum.total, factors.before, __fmul_rn(part.total, factors.part));
  sum.largest = largest;
  return factors;
}

__device__ inline float join_values(float sum, float part, const JoinFactors& factors) {
  return __fmaf_rn(sum, factors.before, __fmul_rn(part, factors.part));
}

// A sink has a weight and no value; `sinks`: of all heads, or nullptr.
__device__ inline void add_sink(SoftmaxSum& sum, float& factor, const float* sinks,
                                std::int32_t head) {
  factor = 1.0F;
  if (sinks != nullptr) factor = join(sum, {sinks[head], 1.0F}).before;
}

__device__ inline float normalized(float value, const SoftmaxSum& sum, float factor) {
  return __fdiv_rn(__fmul_rn(value, factor), sum.total);
}

// Partial results of the rows of some units of work, [units][rows][ranges], as a step splits them.
struct RangePartials {
  std::int32_t rows = 0;       // of a unit
  std::int32_t ranges = 0;     // most of a unit
  std::int32_t dims = 0;       // of a value
  SoftmaxSum* sums = nullptr;  // [units][rows][ranges]
  float* values = nullptr;     // [units][rows][ranges][dims]

  static std::int64_t floats(std::int64_t rows, std::int64_t ranges, std::int64_t dims) {
    return rows * ranges * (dims + 2);
  }
  __device__ std::int64_t index(std::int64_t unit, std::int32_t row, std::int32_t range) const {
    return (unit * rows + row) * ranges + range;
  }
};

}  // namespace quire::cuda
