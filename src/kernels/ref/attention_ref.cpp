#include <cmath>
#include <limits>

#include "kernels/ref/kv_ref.h"
#include "kernels/ref/row_ref.h"

namespace quire {
namespace {

// Softmax in one pass over the keys, in their order (Milakov and Gimelshein 2018). `sums` has
// as many doubles as a value has numbers. The type is a constant, so that nothing is decided for
// each number.
template <DType kDType>
void attend(const AttentionTask& task, const float* query, std::int32_t head, std::int32_t position,
            double* sums, float* out) {
  const AttentionArgs& args = *task.args;
  KvLayout layout = args.layout;
  layout.dtype = kDType;
  const bool has_sink = args.sinks != nullptr;
  double largest = has_sink ? double{args.sinks[head]} : -std::numeric_limits<double>::infinity();
  double total = has_sink ? 1.0 : 0.0;
  const std::int32_t value_dims = layout.value_dims();
  for (std::int32_t i = 0; i < value_dims; ++i) sums[i] = 0.0;
  for (std::int32_t key = first_visible_key(args, position); key <= position; ++key) {
    const BlockId block = task.block_table[key / layout.block_size];
    const std::int32_t slot = key % layout.block_size;
    double score = 0.0;
    for (std::int32_t i = 0; i < layout.head_dim; ++i) {
      score += double{query[i]} * double{load_key(args.kv, layout, block, task.kv_head, slot, i)};
    }
    score *= double{args.scale};
    if (args.soft_cap > 0.0F) score = args.soft_cap * std::tanh(score / double{args.soft_cap});
    if (args.alibi_slopes != nullptr) score += double{args.alibi_slopes[head]} * (key - position);
    if (score > largest) {
      const double correction = std::exp(largest - score);
      total *= correction;
      for (std::int32_t i = 0; i < value_dims; ++i) sums[i] *= correction;
      largest = score;
    }
    const double weight = std::exp(score - largest);
    total += weight;
    for (std::int32_t i = 0; i < value_dims; ++i) {
      sums[i] += weight * double{load_value(args.kv, layout, block, task.kv_head, slot, i)};
    }
  }
  for (std::int32_t i = 0; i < value_dims; ++i) out[i] = static_cast<float>(sums[i] / total);
}

template <DType kDType>
void attend_all(const AttentionTask& task) {
  const AttentionArgs& args = *task.args;
  const std::int64_t head_dim = args.layout.head_dim;
  const std::int32_t group = args.num_heads / args.layout.num_kv_heads;
  auto* const sums = reinterpret_cast<double*>(task.scratch);
  for (std::int32_t row = task.query_begin; row < task.query_end; ++row) {
    const std::int32_t position = task.first_position + row - task.query_begin;
    for (std::int32_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head) {
      attend<kDType>(
          task, args.q + row * args.q_stride + head * head_dim, head, position, sums,
          args.out + (std::int64_t{row} * args.num_heads + head) * args.layout.value_dims());
    }
  }
}

}  // namespace

void ref_attention(const AttentionTask& task) {
  switch (task.args->layout.dtype) {
    case DType::kBF16:
      return attend_all<DType::kBF16>(task);
    case DType::kF8E4M3:
      return attend_all<DType::kF8E4M3>(task);
    case DType::kI8:
      return attend_all<DType::kI8>(task);
    default:
      return attend_all<DType::kF32>(task);
  }
}

}  // namespace quire
