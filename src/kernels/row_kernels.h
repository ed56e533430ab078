// What an instruction-set level provides besides matrix products: plain views, no threads, no
// memory.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "kernels/row_args.h"

namespace quire {

// One AttentionWork, with the scratch of the worker that runs it (kernels/sizing.h).
struct AttentionTask {
  const AttentionArgs* args = nullptr;
  const BlockId* block_table = nullptr;
  std::int32_t kv_head = 0;
  std::int32_t query_begin = 0;  // rows of args->q
  std::int32_t query_end = 0;
  // Null: the rows from query_begin on, of one sequence. Else the rows of args->q that share a
  // prefix, query_end - query_begin of them, of as many sequences; each sees all keys of all
  // ranges.
  const std::int32_t* shared_queries = nullptr;
  const std::int32_t* shared_positions = nullptr;  // of these queries, each in its own sequence
  // Of query_begin in its sequence; of shared queries: of the last key.
  std::int32_t first_position = 0;
  // Ranges of keys (attention_scratch.h), those that no query sees left out.
  std::int32_t range_begin = 0;
  std::int32_t range_end = 0;
  // Null: the outputs are written. Else the partial results of each range, those of range i of the
  // sequence at partials + i * PartialResults::floats(head_dim, rows); merge_attention() makes
  // outputs of them.
  float* partials = nullptr;
  // What the ranges before range_begin gave, joined: PartialResults of one query's heads. Of shared
  // queries it is written, that of query i at state + i * state_stride; else read, where not null.
  float* state = nullptr;
  std::int64_t state_stride = 0;
  float* scratch = nullptr;
};

struct RowKernels {
  void (*rms_norm)(const float* x, const float* weight, float epsilon, std::int64_t cols,
                   float* out) = nullptr;
  void (*rms_norm_and_add)(const float* x, const float* weight, float epsilon, std::int64_t cols,
                           float* out) = nullptr;
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon,
                     std::int64_t cols, float* out) = nullptr;
  void (*silu_and_mul)(const float* gate, const float* up, std::int64_t width,
                       float* out) = nullptr;
  void (*gelu_tanh_and_mul)(const float* gate, const float* up, std::int64_t width,
                            float* out) = nullptr;
  void (*clamped_and_mul)(const ClampedGate& clamped, const float* gate, const float* up,
                          std::int64_t width, float* out) = nullptr;
  void (*gelu_tanh)(std::int64_t count, float* x) = nullptr;
  void (*gelu)(std::int64_t count, float* x) = nullptr;
  void (*relu)(std::int64_t count, float* x) = nullptr;
  void (*relu2)(std::int64_t count, float* x) = nullptr;
  void (*soft_cap)(float cap, std::int64_t count, float* x) = nullptr;
  void (*xielu)(const Xielu& curve, std::int64_t count, float* x) = nullptr;
  void (*rope_and_cache)(const RopeAndCacheArgs& args, const HeadTile& tile) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  // Whether it rounds queries and weights to bfloat16 over a bfloat16 cache, as the dot product of
  // that type needs.
  bool attention_rounds_to_bf16 = false;
  bool attention_rounds_over_fp8 = false;  // the same over an fp8 cache
  // The outputs of a task whose ranges were computed in pieces. Null: this level computes every
  // task whole.
  void (*merge_attention)(const AttentionTask& task) = nullptr;
  // The largest of a row, and where it is first; NaN where the row has one.
  RowBest (*best_of_row)(const float* x, std::int64_t cols) = nullptr;
  // log(sum_c(exp(x[c]))), in float32 with a fixed order. `largest`: best_of_row's value of the
  // same row, and the result where it is not finite.
  float (*log_sum_exp)(const float* x, std::int64_t cols, float largest) = nullptr;
  // What tokens weigh where one is drawn: weights[i] = e^((logits[i] - max_logit) * scale), to
  // about 2e-7 of its value, and what is known of each block of them, TokenBlock::count(count) of
  // them. The same bits at every level.
  void (*token_weights)(const float* logits, std::int64_t count, float max_logit, float scale,
                        float* weights, TokenBlock* blocks) = nullptr;
};

}  // namespace quire
