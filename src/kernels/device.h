// What a device is to everything above: memory, and the ops that run on it. A device has one class
// of each below: its table of ops. That of the CPU is in cpu_device.h, with the kernels of its
// instruction-set levels behind it (op_table.h).
//
// Pointers in arguments are into the device's memory, unless they are said to be the host's; the
// structs and lists of arguments themselves are read during the call.
//
// Reduction order is part of the contract: the sum over K of one output and the sum over keys of
// one query happen in an order that depends on neither the number of rows nor how work is split nor
// the block size, so a token's numbers are the same in every batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/span_recorder.h"
#include "base/status.h"
#include "kernels/attention_plan.h"
#include "kernels/op_args.h"
#include "kernels/packed_weight.h"
#include "kernels/piece_key.h"
#include "kernels/sampling_args.h"
#include "kernels/sizing.h"
#include "kernels/state_runs.h"
#include "tensor/buffer.h"
#include "tensor/device_floats.h"
#include "tensor/device_memory.h"

namespace quire {

class ThreadPool;

// One step's attention as a device splits it, used by every layer of a model.
class PlannedAttention {
 public:
  virtual ~PlannedAttention() = default;
  // Splits `batch`, whose arrays are the host's and stay as they are until the stream is
  // synchronized. How a step is split changes no bit of its results.
  virtual void build(const AttentionBatch& batch) = 0;
};

// Ops that run one after the other, in the order of the calls, maybe long after them. Called by one
// thread. All activations are float32, row-major.
class OpStream {
 public:
  virtual ~OpStream() = default;

  // From here on ops are recorded where the device can: in `spans` where they have run when their
  // call returns, else with the times at which they ran in `on_device`, there as parts of a span
  // for each of some steps, with the id of what is open in `spans`. Borrows both.
  virtual void record_spans(SpanRecorder& spans, SpanRecorder& /*on_device*/) { spans_ = &spans; }
  // Null: nothing is recorded.
  SpanRecorder* spans() const { return spans_; }

  // Touches all scratch memory, so that no op pays for a first use.
  virtual void prefault() = 0;

  // Once a step, before anything else: forgets what was staged before.
  virtual void begin_step() = 0;
  // Stages values of the host: ops after this one read them. They must not change until the stream
  // is synchronized.
  template <typename T>
  const T* stage(std::span<const T> values) {
    return reinterpret_cast<const T*>(stage_bytes(std::as_bytes(values)));
  }
  // Copies values of the host to a place of the device: ops after this one find them there. They
  // must not change until the stream is synchronized. For what does not fit beside all that a step
  // stages.
  template <typename T>
  void upload(std::span<const T> values, T* to) {
    upload_bytes(std::as_bytes(values), reinterpret_cast<std::byte*>(to));
  }
  // Copies `count` values to the host; they are there when the stream is synchronized.
  template <typename T>
  void download(const T* from, std::int64_t count, T* to) {
    download_bytes(reinterpret_cast<const std::byte*>(from),
                   std::as_writable_bytes(std::span(to, static_cast<std::size_t>(count))));
  }
  // Copies between two places of the device, which do not overlap.
  virtual void copy(const std::byte* from, std::uint64_t bytes, std::byte* to) = 0;
  // Waits until all ops are done. An error of one of them comes here, and nothing that they should
  // have written can be counted on then.
  virtual Status synchronize() = 0;

  // Calls `ops`, which calls ops of this stream and does nothing else: what they need is staged,
  // and what they give is not looked at. A device may keep what became of the calls, and repeat
  // that instead of calling `ops` where `key` and what `plans` were built for are the same once
  // more: `key` has all numbers and addresses by which the calls may differ from others, `plans`
  // all that attention() is given. What lies at these addresses is read anew each time.
  virtual void run_piece(const PieceKey& /*key*/,
                         std::span<const std::unique_ptr<PlannedAttention>> /*plans*/,
                         const std::function<void()>& ops) {
    ops();
  }

  // A place for plans of steps of at most `max_tokens` tokens.
  virtual std::unique_ptr<PlannedAttention> plan_attention(std::int64_t max_tokens,
                                                           const AttentionHeads& heads) = 0;

  // x: [rows][x_stride], K = parts[i].weight->inputs() floats of each row are read. `stage`: what
  // the product is for, as its time is recorded.
  virtual void matmul(const float* x, std::int64_t x_stride, std::int64_t rows, ActivationMode mode,
                      std::span<const MatmulPart> parts, const Stage& stage) = 0;

  // matmul() of one part, and the largest output of each row in best[r], the first among equals;
  // NaN, wherever, where the row has one. best: [rows].
  virtual void matmul_and_best(const float* x, std::int64_t x_stride, std::int64_t rows,
                               ActivationMode mode, const MatmulPart& part, RowBest* best,
                               const Stage& stage) = 0;

  // out[r][n] = activation(sum_k x[r][k] gate[n][k] + gate_bias[n]) * (the same with `up`), as one
  // stage. x: [rows][inputs]; out: [rows][outputs].
  virtual void gated_matmul(const float* x, std::int64_t rows, ActivationMode mode,
                            const GatedProducts& products, float* out, const Stage& stage) = 0;

  // HeadProducts defines it.
  virtual void matmul_by_head(std::int64_t rows, ActivationMode mode, const HeadProducts& products,
                              const Stage& stage) = 0;

  // Which experts each row of a mixture goes to, and with which weights.
  virtual void route(const RouteArgs& args) = 0;

  // out[r] = sum_e weight[r][e] down_e(activation(gate_e(x[r])) * up_e(x[r])) over the experts that
  // row r goes to (or with weight[r][e] x[r] instead of x[r] and no other weight), added in the
  // order of the experts: a row's sum is the same whoever goes where. The weights of experts that
  // no row goes to are not read. x, out: [rows][inputs].
  virtual void expert_mlp(const float* x, std::int64_t rows, const ExpertProducts& products,
                          float* out) = 0;

  // The projections of queries, keys and values, norms of query and key heads where `heads` has
  // them, rotary position embedding (Su et al. 2021) and the write of keys and values into the
  // cache, as one stage. x: [heads.num_tokens][inputs]. `parts`: their outputs, side by side, make
  // up heads.qkv.
  virtual void qkv_matmul(const float* x, ActivationMode mode, std::span<const MatmulPart> parts,
                          const RopeAndCacheArgs& heads, const Stage& stage) = 0;

  // The second half of qkv_matmul(), for heads whose projections needed something else first.
  virtual void rope_and_cache(const RopeAndCacheArgs& heads) = 0;

  // Causal attention over paged keys and values with online softmax (Dao 2023, FlashAttention-2;
  // Kwon et al. 2023, PagedAttention). Query t of sequence s sits at position seq_lens[s] -
  // num_queries(s) + t and sees the keys at positions up to its own, or those of them that are in
  // its window (Beltagy et al. 2020, Longformer) or chunk (Llama 4), read from the cache as rounded
  // there. AttentionArgs says what scores become: soft caps (Gemma 2), linear biases (Press et al.
  // 2022, ALiBi), sinks (Xiao et al. 2024). `plan`: of this stream's plan_attention().
  virtual void attention(const PlannedAttention& plan, const AttentionArgs& args) = 0;

  // out[i] = row token_ids[i] of the table, as floats: [num_tokens][table.inputs()].
  virtual void embedding(const PackedWeight& table, const TokenId* token_ids,
                         std::int64_t num_tokens, float* out) = 0;

  // out[i] = x[rows[i]]. x: [...][cols]; out: [num_rows][cols].
  virtual void gather_rows(const float* x, const std::int64_t* rows, std::int64_t num_rows,
                           std::int64_t cols, float* out) = 0;

  // out[r][c] = x[r][c] / sqrt(mean_c(x[r]^2) + eps) * weight[c] (Zhang and Sennrich 2019).
  virtual void rms_norm(const float* x, const float* weight, float epsilon, std::int64_t rows,
                        std::int64_t cols, float* out) = 0;

  // out[r][c] += the same: the norm of a block's output, added to what came in (sandwich norms).
  virtual void rms_norm_and_add(const float* x, const float* weight, float epsilon,
                                std::int64_t rows, std::int64_t cols, float* out) = 0;

  // Rows of `cols` that lie `stride` apart, each replaced by its rms_norm().
  virtual void rms_norm_in_place(const float* weight, float epsilon, std::int64_t rows,
                                 std::int64_t cols, std::int64_t stride, float* x) = 0;

  // out[r][c] = (x[r][c] - mean_c(x[r])) / sqrt(variance_c(x[r]) + eps) * weight[c] + bias[c] (Ba
  // et al. 2016). weight, bias: [cols] or nullptr.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                          std::int64_t rows, std::int64_t cols, float* out) = 0;

  // x[i] = activation(x[i]), one of those of MLPs without a gate.
  virtual void activate_in_place(Activation activation, std::int64_t count, float* x) = 0;

  // x[i] = xIELU(x[i]).
  virtual void xielu_in_place(const Xielu& curve, std::int64_t count, float* x) = 0;

  // x[r][c] *= the factor of positions[r], for c < cols. x: rows that lie `stride` apart.
  virtual void scale_by_position(const PositionScale& scale, const std::int32_t* positions,
                                 std::int64_t rows, std::int64_t cols, std::int64_t stride,
                                 float* x) = 0;

  // x[i] *= factor.
  virtual void scale_in_place(float factor, std::int64_t count, float* x) = 0;

  // x[i], but no more than limit and no less than -limit; NaN stays NaN.
  virtual void clamp_in_place(float limit, std::int64_t count, float* x) = 0;

  // x[r] += table[positions[r]]. table: [...][cols]; positions: [rows].
  virtual void add_position_rows(const float* table, const std::int32_t* positions,
                                 std::int64_t rows, std::int64_t cols, float* x) = 0;

  // x[r][c] = cap * tanh(x[r][c] / cap), and best[r] as matmul_and_best() gives it.
  virtual void soft_cap_and_best(float cap, std::int64_t rows, std::int64_t cols, float* x,
                                 RowBest* best) = 0;

  // out[i] += factor * x[i].
  virtual void scale_and_add(const float* x, float factor, std::int64_t count, float* out) = 0;

  // out[r][c] += sigmoid(gates[r]) * x[r][c]. gates: [rows].
  virtual void add_gated(const float* x, const float* gates, std::int64_t rows, std::int64_t cols,
                         float* out) = 0;

  // x[r][c] *= by[r * by_stride + c].
  virtual void multiply_rows(const float* by, std::int64_t by_stride, std::int64_t rows,
                             std::int64_t cols, float* x) = 0;

  // x[r][c] = max(0, x[r][c] - cutoff), where the cutoff of a row is its mean and `deviations`
  // standard deviations of its numbers: of normal ones a known share is left (Gemma 3n).
  virtual void keep_largest(float deviations, std::int64_t rows, std::int64_t cols, float* x) = 0;

  // x[r] times what brings its root mean square to that of like[r]; its own counts as sqrt(floor)
  // where it is less.
  virtual void match_rms(const float* like, float floor, std::int64_t rows, std::int64_t cols,
                         float* x) = 0;

  // s_i += sum_j sum_k weight[i][j][k] m[k] s_j for the streams s of each token, all read before
  // one is written; out = the active one. out: [rows][cols].
  virtual void predict_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                               float* out) = 0;

  // s_i += (1 + sum_k weight[i][k] m[k]) (x - s_active) for the streams s of each token; then x =
  // s_active[c] * scale[c]. x: [rows][cols]; scale: [cols] or nullptr.
  virtual void correct_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                               const float* scale, float* x) = 0;

  // ShortConvArgs defines it. rows: of all runs.
  virtual void short_conv(std::int64_t rows, const ShortConvArgs& args) = 0;

  // Chooses a token for each of `rows`, from logits[i] for rows[i], which are left as they are:
  // [rows][vocab_size]. best: the largest of each row, as matmul_and_best() gives it. A token
  // depends on its own row alone. `rows` and `samples` are the host's; the results are there when
  // the stream is synchronized.
  virtual void sample(const float* logits, const RowBest* best, std::span<const SampleArgs> rows,
                      std::span<RowSample> samples) = 0;

  // The log probabilities of given tokens, in the same way.
  virtual void score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
                     std::span<RowSample> scores) = 0;

 protected:
  virtual const std::byte* stage_bytes(std::span<const std::byte> values) = 0;
  virtual void upload_bytes(std::span<const std::byte> values, std::byte* to) = 0;
  virtual void download_bytes(const std::byte* from, std::span<std::byte> to) = 0;

 private:
  SpanRecorder* spans_ = nullptr;
};

class Device : public DeviceMemory {
 public:
  // "cpu" and so on: what one device has packed, any other of its kind adopts.
  virtual std::string_view kind() const = 0;

  // The memory that a stream for such steps needs.
  virtual StreamMemory stream_memory(const StreamLimits& limits) const = 0;
  // A stream for steps within `limits`, which borrows the device. kResourceExhausted.
  virtual Result<std::unique_ptr<OpStream>> make_stream(const StreamLimits& limits) = 0;

  // A matrix packed as this device's kernels read it, still in the host's memory, where it can be
  // kept for another start; `parts` and errors as PackedWeight::pack().
  virtual Result<PackedWeight> pack(std::span<const EncodedMatrix> parts,
                                    const PackOptions& options) = 0;
  // A matrix that was packed, in this device's memory. kResourceExhausted.
  virtual Result<PackedWeight> adopt(PackedWeight packed) = 0;
  // Numbers in this device's memory. kResourceExhausted.
  virtual Result<DeviceFloats> upload(std::vector<float> values) = 0;

  // Touches all pages of what allocate() gave.
  virtual void prefault(const Buffer& buffer) = 0;

  // The host's threads that prepare data for the device, for code that reads files while none of
  // its ops run.
  virtual ThreadPool& host_threads() = 0;

  // A number that goes on changing while ops run. Any thread.
  virtual std::uint64_t progress() const = 0;
};

}  // namespace quire
