// What the tests of attention vary, and what they compare it with: a plain softmax in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/ref/kv_ref.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/float_convert.h"

namespace quire {

struct AttentionShape {
  std::int32_t num_heads = 1;
  std::int32_t num_kv_heads = 1;
  std::int32_t head_dim = 64;
  DType dtype = DType::kBF16;
  std::int32_t window = 0;
  float scale = 0.0F;  // 0: the usual one
  std::int32_t chunk = 0;
  float soft_cap = 0.0F;
  bool alibi = false;
  bool sinks = false;
};

// What each head of a shape has of its own, and the other options of its scores.
struct HeadNumbers {
  AttentionShape shape;
  std::vector<float> slopes;
  std::vector<float> sinks;

  explicit HeadNumbers(const AttentionShape& s) : shape(s) {
    for (std::int32_t head = 0; head < s.num_heads; ++head) {
      slopes.push_back(0.375F / static_cast<float>(1 + head % 7));
      sinks.push_back(1.5F - 0.75F * static_cast<float>(head % 5));
    }
  }
  void set(AttentionArgs& args) const {
    args.window = shape.window;
    args.chunk = shape.chunk;
    args.soft_cap = shape.soft_cap;
    args.alibi_slopes = shape.alibi ? slopes.data() : nullptr;
    args.sinks = shape.sinks ? sinks.data() : nullptr;
  }
};

// Each level once: one that has the attention of the level below is skipped.
class AttentionLevels : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    const auto level = static_cast<std::size_t>(GetParam());
    if (level > 0 &&
        op_table(GetParam()).rows.attention == op_table(kIsaLevels[level - 1]).rows.attention) {
      GTEST_SKIP() << "the attention of the level below";
    }
  }
};

namespace attention_test {

// Of a head in an array [positions][heads].
inline std::size_t row_index(std::int32_t position, std::int32_t heads, std::int32_t head) {
  return static_cast<std::size_t>(position) * static_cast<std::size_t>(heads) +
         static_cast<std::size_t>(head);
}

// Queries, keys and values of one sequence, for all its positions.
struct Sequence {
  AttentionShape shape;
  std::int32_t length;
  std::vector<float> q;  // [length][num_heads][head_dim]
  std::vector<float> k;  // [length][num_kv_heads][head_dim]
  std::vector<float> v;

  Sequence(const AttentionShape& s, std::int32_t n, unsigned seed, float spread = 1.0F)
      : shape(s), length(n) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0F, spread);
    const auto fill = [&](std::vector<float>& to, std::int32_t heads) {
      to.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(heads * s.head_dim));
      for (float& value : to) value = normal(generator);
    };
    fill(q, s.num_heads);
    fill(k, s.num_kv_heads);
    fill(v, s.num_kv_heads);
  }

  float scale() const {
    return shape.scale > 0 ? shape.scale : 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  }
};

// KV memory in blocks, and the block tables of some sequences, in shuffled order.
class Cache {
 public:
  Cache(const AttentionShape& shape, std::int32_t block_size,
        const std::vector<Sequence>& sequences, unsigned seed)
      : layout_{shape.dtype, block_size, shape.num_kv_heads, shape.head_dim} {
    std::size_t blocks = 0;
    for (const Sequence& s : sequences) {
      const auto count = static_cast<std::size_t>((s.length + block_size - 1) / block_size);
      tables_.emplace_back(count);
      blocks += count;
    }
    std::vector<BlockId> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    // What nobody wrote is NaN: a key that must not be seen would show.
    memory_.assign(blocks * layout_.block_bytes(), std::byte{0xFF});
    std::size_t next = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (BlockId& id : tables_[i]) id = ids[next++];
    }
  }

  // Writes positions [begin, end) of `sequence`.
  void write(std::size_t index, const Sequence& sequence, std::int32_t begin, std::int32_t end) {
    for (std::int32_t position = begin; position < end; ++position) {
      const BlockId block = tables_[index][static_cast<std::size_t>(position / layout_.block_size)];
      const std::int32_t slot = position % layout_.block_size;
      for (std::int32_t head = 0; head < layout_.num_kv_heads; ++head) {
        const auto from = row_index(position, layout_.num_kv_heads, head) *
                          static_cast<std::size_t>(layout_.head_dim);
        store_key(&sequence.k[from], layout_, block, head, slot, memory_.data());
        store_value(&sequence.v[from], layout_, block, head, slot, memory_.data());
      }
    }
  }

  const KvLayout& layout() const { return layout_; }
  const std::byte* memory() const { return memory_.data(); }
  const BlockId* table(std::size_t index) const { return tables_[index].data(); }

 private:
  KvLayout layout_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<BlockId>> tables_;
};

// The outputs of all positions of all sequences, in steps of at most `chunk` positions of each.
inline std::vector<std::vector<float>> run(IsaLevel level, const std::vector<Sequence>& sequences,
                                           std::int32_t block_size, std::int32_t chunk,
                                           int threads) {
  const AttentionShape& shape = sequences.front().shape;
  const auto row =
      static_cast<std::size_t>(shape.num_heads) * static_cast<std::size_t>(shape.head_dim);
  Cache cache(shape, block_size, sequences, static_cast<unsigned>(block_size * 1000 + chunk));
  const std::int32_t group = shape.num_heads / shape.num_kv_heads;
  std::int64_t longest = 0;
  for (const Sequence& s : sequences) longest = std::max<std::int64_t>(longest, s.length);
  const HeadNumbers numbers(shape);
  ThreadPool pool(threads);
  Buffer workspace =
      Buffer::allocate(workspace_bytes(1, 32, {shape.head_dim, group, longest}, threads)).value();
  OpContext ctx{pool, op_table(level), workspace.bytes()};
  AttentionPlan plan;
  std::vector<std::vector<float>> out(sequences.size());
  for (std::int32_t begin = 0;; begin += chunk) {
    std::vector<std::int32_t> query_start_loc = {0};
    std::vector<std::int32_t> seq_lens;
    std::vector<const BlockId*> tables;
    std::vector<float> q;
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      if (begin >= s.length) continue;
      const std::int32_t end = std::min(begin + chunk, s.length);
      cache.write(i, s, begin, end);
      active.push_back(i);
      query_start_loc.push_back(query_start_loc.back() + end - begin);
      seq_lens.push_back(end);
      tables.push_back(cache.table(i));
      q.insert(q.end(), s.q.begin() + static_cast<std::ptrdiff_t>(row) * begin,
               s.q.begin() + static_cast<std::ptrdiff_t>(row) * end);
    }
    if (active.empty()) return out;
    plan.build({static_cast<std::int32_t>(active.size()), query_start_loc.data(), seq_lens.data(),
                tables.data(), block_size},
               {shape.num_kv_heads, group}, threads);
    std::vector<float> step_out(q.size(), std::numeric_limits<float>::quiet_NaN());
    AttentionArgs args;
    args.q = q.data();
    args.q_stride = static_cast<std::int64_t>(row);
    args.num_heads = shape.num_heads;
    args.scale = sequences.front().scale();
    numbers.set(args);
    args.layout = cache.layout();
    args.kv = cache.memory();
    args.out = step_out.data();
    attention(ctx, plan, args);
    for (std::size_t a = 0; a < active.size(); ++a) {
      out[active[a]].insert(
          out[active[a]].end(),
          step_out.begin() + static_cast<std::ptrdiff_t>(row) * query_start_loc[a],
          step_out.begin() + static_cast<std::ptrdiff_t>(row) * query_start_loc[a + 1]);
    }
  }
}

// Whether the level rounds queries and weights to bfloat16, for the dot product of that type.
inline bool rounds_to_bf16(IsaLevel level, const AttentionShape& shape) {
  const RowKernels& rows = op_table(level).rows;
  if (shape.dtype == DType::kBF16) return rows.attention_rounds_to_bf16;
  return shape.dtype == DType::kF8E4M3 && rows.attention_rounds_over_fp8;
}

// What an output may differ by from PlainAttention's. Outputs are averages of values of size about
// 1: the scores' rounding, about 1e-6 of the largest score's terms; where weights are rounded, each
// by up to 2^-9 of itself, that of an average of values within 4 of each other. Over an int8 cache
// queries and weights are integers up to 2^15 times a step, so a score is off by a few 2^-16 of the
// query's largest number, a weight by up to 2^-16 of the largest.
inline double tolerance(IsaLevel level, const AttentionShape& shape) {
  if (shape.dtype == DType::kI8 && level != IsaLevel::kRef) return 0x1p-12;
  return rounds_to_bf16(level, shape) ? 0x1p-8 : 5e-6;
}

// Softmax over all scores at once, in double; of queries as the level rounds them.
class PlainAttention {
 public:
  PlainAttention(IsaLevel level, const Sequence& sequence)
      : level_(level),
        s_(sequence),
        numbers_(sequence.shape),
        d_(static_cast<std::size_t>(sequence.shape.head_dim)),
        k_(cached(sequence.k)),
        v_(cached(sequence.v)) {}

  std::vector<double> output(std::int32_t position, std::int32_t head) const {
    const AttentionShape& shape = s_.shape;
    const std::int32_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
    const float* const row_of_q = s_.q.data() + row_index(position, shape.num_heads, head) * d_;
    std::vector<double> q(row_of_q, row_of_q + d_);
    if (rounds_to_bf16(level_, shape)) {  // times the scale for powers of two
      const float scale = s_.scale() * 0x1.715476p+0F;
      for (double& x : q) {
        x = double{bf16_to_float(float_to_bf16(static_cast<float>(x) * scale))} / double{scale};
      }
    }
    const auto row = [&](const std::vector<double>& rows, std::size_t key) {
      return rows.data() +
             row_index(static_cast<std::int32_t>(key), shape.num_kv_heads, kv_head) * d_;
    };
    const auto keys = static_cast<std::size_t>(position) + 1;
    std::size_t first = 0;
    if (shape.window > 0)
      first = static_cast<std::size_t>(std::max(0, position + 1 - shape.window));
    if (shape.chunk > 0) first = static_cast<std::size_t>(position / shape.chunk * shape.chunk);
    const auto h = static_cast<std::size_t>(head);
    std::vector<double> weights(keys, 0.0);
    for (std::size_t key = first; key < keys; ++key) {
      const double* const k = row(k_, key);
      for (std::size_t i = 0; i < d_; ++i) weights[key] += q[i] * k[i];
      weights[key] *= double{s_.scale()};
      if (shape.soft_cap > 0)
        weights[key] = shape.soft_cap * std::tanh(weights[key] / shape.soft_cap);
      if (shape.alibi)
        weights[key] -= double{numbers_.slopes[h]} * static_cast<double>(keys - 1 - key);
    }
    double largest =
        *std::max_element(weights.begin() + static_cast<std::ptrdiff_t>(first), weights.end());
    double total = 0.0;
    if (shape.sinks) {
      largest = std::max(largest, double{numbers_.sinks[h]});
      total = std::exp(numbers_.sinks[h] - largest);
    }
    for (std::size_t key = first; key < keys; ++key) {
      total += weights[key] = std::exp(weights[key] - largest);
    }
    std::vector<double> out(d_, 0.0);
    for (std::size_t key = first; key < keys; ++key) {
      const double* const v = row(v_, key);
      for (std::size_t i = 0; i < d_; ++i) out[i] += weights[key] / total * v[i];
    }
    return out;
  }

 private:
  // Rows as the cache rounds them.
  std::vector<double> cached(const std::vector<float>& rows) const {
    const KvLayout layout{s_.shape.dtype, 1, 1, s_.shape.head_dim};
    std::vector<std::byte> memory(layout.block_bytes());
    std::vector<double> rounded;
    rounded.reserve(rows.size());
    for (std::size_t at = 0; at < rows.size(); at += d_) {
      store_value(rows.data() + at, layout, 0, 0, 0, memory.data());
      for (std::int32_t i = 0; i < s_.shape.head_dim; ++i) {
        rounded.push_back(load_value(memory.data(), layout, 0, 0, 0, i));
      }
    }
    return rounded;
  }

  IsaLevel level_;
  const Sequence& s_;
  HeadNumbers numbers_;
  std::size_t d_;
  std::vector<double> k_;  // [length][num_kv_heads][head_dim], as is v_
  std::vector<double> v_;
};

}  // namespace attention_test
}  // namespace quire
