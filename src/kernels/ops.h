// The operations that models are made of, as the CPU computes them: what is behind a CpuDevice
// (kernels/cpu_device.h). Each gets an OpContext and plain views, and allocates no memory:
// what it needs beyond its arguments comes from the context's workspace, whose size
// kernels/sizing.h gives. All activations are float32, row-major.
//
// Reduction order is part of the contract: the sum over K of one output and the sum over keys of
// one query happen in an order that depends on neither the number of rows nor the split over
// threads nor the block size, so a token's numbers are the same in every batch.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/span_recorder.h"
#include "kernels/attention_plan.h"
#include "kernels/op_args.h"
#include "kernels/state_runs.h"
#include "tensor/thread_pool.h"

namespace quire {

struct OpTable;  // kernels/op_table.h: the kernels of one instruction-set level

struct OpContext {
  ThreadPool& pool;
  const OpTable& table;
  std::span<std::byte> workspace;  // 64-byte aligned
  // Where each op records its time; null: nowhere. The pool's timing is on where this is set.
  SpanRecorder* spans = nullptr;
};

// x: [rows][x_stride], K = parts[i].weight->inputs() floats of each row are read. `stage`: what the
// product is for, as its time is recorded.
void matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
            ActivationMode mode, std::span<const MatmulPart> parts,
            const Stage& stage = kMatmulStage);

// matmul() of one part, and the largest output of each row in best[r], the first among equals; NaN,
// wherever, where the row has one. It is found while the outputs are in the cache of the worker
// that computed them. best: [rows].
void matmul_and_best(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                     ActivationMode mode, const MatmulPart& part, RowBest* best,
                     const Stage& stage = kMatmulStage);

// out[r][n] = activation(sum_k x[r][k] gate[n][k] + gate_bias[n]) * (the same with `up`), as one
// stage: what a worker has computed goes through the activation while it is in its cache. x:
// [rows][inputs]; out: [rows][outputs].
void gated_matmul(OpContext& ctx, const float* x, std::int64_t rows, ActivationMode mode,
                  const GatedProducts& products, float* out, const Stage& stage = kMatmulStage);

// See HeadProducts. The products of many heads are one parallel region.
void matmul_by_head(OpContext& ctx, std::int64_t rows, ActivationMode mode,
                    const HeadProducts& products, const Stage& stage = kMatmulStage);

// See RouteArgs.
void route(OpContext& ctx, const RouteArgs& args);

// out[r] = sum_e weight[r][e] down_e(activation(gate_e(x[r])) * up_e(x[r])) over the experts that
// row r goes to, added in the order of the experts: a row's sum is the same whoever goes where.
// Rows are gathered by expert, so that each expert's weights are read once. x, out: [rows][inputs].
void expert_mlp(OpContext& ctx, const float* x, std::int64_t rows, const ExpertProducts& products,
                float* out);

// The projections of queries, keys and values, norms of query and key heads where `heads` has them,
// rotary position embedding (Su et al. 2021) and the write of keys and values into the cache, as
// one stage: a head goes on while it is in the cache of the worker that computed the last of it. x:
// [heads.num_tokens][inputs]. `parts`: their outputs, side by side, make up heads.qkv.
void qkv_matmul(OpContext& ctx, const float* x, ActivationMode mode,
                std::span<const MatmulPart> parts, const RopeAndCacheArgs& heads,
                const Stage& stage = kMatmulStage);

// out[i] = row token_ids[i] of the table, as floats: [num_tokens][table.inputs()].
void embedding(OpContext& ctx, const PackedWeight& table, const TokenId* token_ids,
               std::int64_t num_tokens, float* out);

// out[r][c] = x[r][c] / sqrt(mean_c(x[r]^2) + eps) * weight[c] (Zhang and Sennrich 2019).
void rms_norm(OpContext& ctx, const float* x, const float* weight, float epsilon, std::int64_t rows,
              std::int64_t cols, float* out);

// out[r][c] += the same: the norm of a block's output, added to what came in (sandwich norms).
void rms_norm_and_add(OpContext& ctx, const float* x, const float* weight, float epsilon,
                      std::int64_t rows, std::int64_t cols, float* out);

// Rows of `cols` that lie `stride` apart, each replaced by its rms_norm().
void rms_norm_in_place(OpContext& ctx, const float* weight, float epsilon, std::int64_t rows,
                       std::int64_t cols, std::int64_t stride, float* x);

// out[r][c] = (x[r][c] - mean_c(x[r])) / sqrt(variance_c(x[r]) + eps) * weight[c] + bias[c] (Ba et
// al. 2016). weight, bias: [cols] or nullptr.
void layer_norm(OpContext& ctx, const float* x, const float* weight, const float* bias,
                float epsilon, std::int64_t rows, std::int64_t cols, float* out);

// x[i] = activation(x[i]), one of those of MLPs without a gate.
void activate_in_place(OpContext& ctx, Activation activation, std::int64_t count, float* x);

// x[i] = xIELU(x[i]).
void xielu_in_place(OpContext& ctx, const Xielu& curve, std::int64_t count, float* x);

// x[r][c] *= the factor of positions[r], for c < cols. x: rows that lie `stride` apart.
void scale_by_position(OpContext& ctx, const PositionScale& scale, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, std::int64_t stride, float* x);

// out[i] = x[rows[i]]. x: [...][cols]; out: [num_rows][cols].
void gather_rows(OpContext& ctx, const float* x, const std::int64_t* rows, std::int64_t num_rows,
                 std::int64_t cols, float* out);

// x[i] *= factor.
void scale_in_place(OpContext& ctx, float factor, std::int64_t count, float* x);

// x[i], but no more than limit and no less than -limit; NaN stays NaN.
void clamp_in_place(OpContext& ctx, float limit, std::int64_t count, float* x);

// x[r] += table[positions[r]]. table: [...][cols]; positions: [rows].
void add_position_rows(OpContext& ctx, const float* table, const std::int32_t* positions,
                       std::int64_t rows, std::int64_t cols, float* x);

// x[r][c] = cap * tanh(x[r][c] / cap), and best[r] as matmul_and_best() gives it.
void soft_cap_and_best(OpContext& ctx, float cap, std::int64_t rows, std::int64_t cols, float* x,
                       RowBest* best);

// out[i] += factor * x[i].
void scale_and_add(OpContext& ctx, const float* x, float factor, std::int64_t count, float* out);

// out[r][c] += sigmoid(gates[r]) * x[r][c]. gates: [rows].
void add_gated(OpContext& ctx, const float* x, const float* gates, std::int64_t rows,
               std::int64_t cols, float* out);

// x[r][c] *= by[r * by_stride + c].
void multiply_rows(OpContext& ctx, const float* by, std::int64_t by_stride, std::int64_t rows,
                   std::int64_t cols, float* x);

// x[r][c] = max(0, x[r][c] - cutoff), where the cutoff of a row is its mean and `deviations`
// standard deviations of its numbers.
void keep_largest(OpContext& ctx, float deviations, std::int64_t rows, std::int64_t cols, float* x);

// x[r] times what brings its root mean square to that of like[r]; its own counts as sqrt(floor)
// where it is less.
void match_rms(OpContext& ctx, const float* like, float floor, std::int64_t rows, std::int64_t cols,
               float* x);

// OpStream defines what both do with the streams of each token.
void predict_streams(OpContext& ctx, std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                     float* out);
void correct_streams(OpContext& ctx, std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                     const float* scale, float* x);

// See ShortConvArgs. Workers share the channels, so that a sequence's rows follow each other.
void short_conv(OpContext& ctx, std::int64_t rows, const ShortConvArgs& args);

// The second half of qkv_matmul(), for heads whose projections needed something else first.
void rope_and_cache(OpContext& ctx, const RopeAndCacheArgs& heads);

// Causal attention over paged keys and values with online softmax (Dao 2023, FlashAttention-2;
// Kwon et al. 2023, PagedAttention). Query t of sequence s sits at position
// seq_lens[s] - num_queries(s) + t and sees the keys at positions up to its own, or those of them
// that are in its window (Beltagy et al. 2020, Longformer) or chunk (Llama 4), read from the cache
// as rounded there. What scores become: AttentionArgs.
void attention(OpContext& ctx, const AttentionPlan& plan, const AttentionArgs& args);

// out[r] = log(sum_c(exp(logits[r][c]))), in float32 with a fixed order; best[r], the largest of
// the row, where that is not finite.
void log_sum_exp(OpContext& ctx, const float* logits, const RowBest* best, std::int64_t rows,
                 std::int64_t cols, float* out);

}  // namespace quire
