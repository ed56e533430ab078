#include "kernels/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/ops.h"
#include "kernels/sampling/sample_rows.h"

namespace quire {
namespace {

class CpuPlannedAttention final : public PlannedAttention {
 public:
  CpuPlannedAttention(std::int64_t max_tokens, const AttentionHeads& heads, int num_threads)
      : heads_(heads), num_threads_(num_threads) {
    plan_.reserve(static_cast<std::int32_t>(max_tokens), heads, num_threads);
  }
  void build(const AttentionBatch& batch) override { plan_.build(batch, heads_, num_threads_); }
  const AttentionPlan& plan() const { return plan_; }

 private:
  AttentionHeads heads_;
  int num_threads_;
  AttentionPlan plan_;
};

class CpuStream final : public OpStream {
 public:
  CpuStream(ThreadPool& pool, const OpTable& table, Buffer workspace, const StreamLimits& limits)
      : workspace_(std::move(workspace)),
        ctx_{.pool = pool, .table = table, .workspace = workspace_.bytes()},
        sampling_(limits.vocab_size, limits.max_sampled_rows, pool.num_threads()) {}

  void record_spans(SpanRecorder& spans, SpanRecorder& on_device) override {
    OpStream::record_spans(spans, on_device);
    ctx_.spans = &spans;
    ctx_.pool.set_timing(true);
  }
  void prefault() override { quire::prefault(workspace_.bytes(), ctx_.pool); }

  void begin_step() override {}
  void copy(const std::byte* from, std::uint64_t bytes, std::byte* to) override {
    std::memcpy(to, from, bytes);
  }
  Status synchronize() override { return {}; }

  std::unique_ptr<PlannedAttention> plan_attention(std::int64_t max_tokens,
                                                   const AttentionHeads& heads) override {
    return std::make_unique<CpuPlannedAttention>(max_tokens, heads, ctx_.pool.num_threads());
  }

  void matmul(const float* x, std::int64_t x_stride, std::int64_t rows, ActivationMode mode,
              std::span<const MatmulPart> parts, const Stage& stage) override {
    quire::matmul(ctx_, x, x_stride, rows, mode, parts, stage);
  }
  void matmul_and_best(const float* x, std::int64_t x_stride, std::int64_t rows,
                       ActivationMode mode, const MatmulPart& part, RowBest* best,
                       const Stage& stage) override {
    quire::matmul_and_best(ctx_, x, x_stride, rows, mode, part, best, stage);
  }
  void gated_matmul(const float* x, std::int64_t rows, ActivationMode mode,
                    const GatedProducts& products, float* out, const Stage& stage) override {
    quire::gated_matmul(ctx_, x, rows, mode, products, out, stage);
  }
  void matmul_by_head(std::int64_t rows, ActivationMode mode, const HeadProducts& products,
                      const Stage& stage) override {
    quire::matmul_by_head(ctx_, rows, mode, products, stage);
  }
  void route(const RouteArgs& args) override { quire::route(ctx_, args); }
  void expert_mlp(const float* x, std::int64_t rows, const ExpertProducts& products,
                  float* out) override {
    quire::expert_mlp(ctx_, x, rows, products, out);
  }
  void qkv_matmul(const float* x, ActivationMode mode, std::span<const MatmulPart> parts,
                  const RopeAndCacheArgs& heads, const Stage& stage) override {
    quire::qkv_matmul(ctx_, x, mode, parts, heads, stage);
  }
  void rope_and_cache(const RopeAndCacheArgs& heads) override {
    quire::rope_and_cache(ctx_, heads);
  }
  void attention(const PlannedAttention& plan, const AttentionArgs& args) override {
    quire::attention(ctx_, static_cast<const CpuPlannedAttention&>(plan).plan(), args);
  }
  void embedding(const PackedWeight& table, const TokenId* token_ids, std::int64_t num_tokens,
                 float* out) override {
    quire::embedding(ctx_, table, token_ids, num_tokens, out);
  }
  void gather_rows(const float* x, const std::int64_t* rows, std::int64_t num_rows,
                   std::int64_t cols, float* out) override {
    quire::gather_rows(ctx_, x, rows, num_rows, cols, out);
  }
  void rms_norm(const float* x, const float* weight, float epsilon, std::int64_t rows,
                std::int64_t cols, float* out) override {
    quire::rms_norm(ctx_, x, weight, epsilon, rows, cols, out);
  }
  void rms_norm_and_add(const float* x, const float* weight, float epsilon, std::int64_t rows,
                        std::int64_t cols, float* out) override {
    quire::rms_norm_and_add(ctx_, x, weight, epsilon, rows, cols, out);
  }
  void rms_norm_in_place(const float* weight, float epsilon, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride, float* x) override {
    quire::rms_norm_in_place(ctx_, weight, epsilon, rows, cols, stride, x);
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                  std::int64_t rows, std::int64_t cols, float* out) override {
    quire::layer_norm(ctx_, x, weight, bias, epsilon, rows, cols, out);
  }
  void activate_in_place(Activation activation, std::int64_t count, float* x) override {
    quire::activate_in_place(ctx_, activation, count, x);
  }
  void xielu_in_place(const Xielu& curve, std::int64_t count, float* x) override {
    quire::xielu_in_place(ctx_, curve, count, x);
  }
  void scale_by_position(const PositionScale& scale, const std::int32_t* positions,
                         std::int64_t rows, std::int64_t cols, std::int64_t stride,
                         float* x) override {
    quire::scale_by_position(ctx_, scale, positions, rows, cols, stride, x);
  }
  void scale_in_place(float factor, std::int64_t count, float* x) override {
    quire::scale_in_place(ctx_, factor, count, x);
  }
  void clamp_in_place(float limit, std::int64_t count, float* x) override {
    quire::clamp_in_place(ctx_, limit, count, x);
  }
  void add_position_rows(const float* table, const std::int32_t* positions, std::int64_t rows,
                         std::int64_t cols, float* x) override {
    quire::add_position_rows(ctx_, table, positions, rows, cols, x);
  }
  void soft_cap_and_best(float cap, std::int64_t rows, std::int64_t cols, float* x,
                         RowBest* best) override {
    quire::soft_cap_and_best(ctx_, cap, rows, cols, x, best);
  }
  void scale_and_add(const float* x, float factor, std::int64_t count, float* out) override {
    quire::scale_and_add(ctx_, x, factor, count, out);
  }
  void add_gated(const float* x, const float* gates, std::int64_t rows, std::int64_t cols,
                 float* out) override {
    quire::add_gated(ctx_, x, gates, rows, cols, out);
  }
  void multiply_rows(const float* by, std::int64_t by_stride, std::int64_t rows, std::int64_t cols,
                     float* x) override {
    quire::multiply_rows(ctx_, by, by_stride, rows, cols, x);
  }
  void keep_largest(float deviations, std::int64_t rows, std::int64_t cols, float* x) override {
    quire::keep_largest(ctx_, deviations, rows, cols, x);
  }
  void match_rms(const float* like, float floor, std::int64_t rows, std::int64_t cols,
                 float* x) override {
    quire::match_rms(ctx_, like, floor, rows, cols, x);
  }
  void predict_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       float* out) override {
    quire::predict_streams(ctx_, rows, cols, args, out);
  }
  void correct_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       const float* scale, float* x) override {
    quire::correct_streams(ctx_, rows, cols, args, scale, x);
  }
  void short_conv(std::int64_t rows, const ShortConvArgs& args) override {
    quire::short_conv(ctx_, rows, args);
  }
  void sample(const float* logits, const RowBest* best, std::span<const SampleArgs> rows,
              std::span<RowSample> samples) override {
    sample_rows(ctx_, sampling_, logits, best, rows, samples);
  }
  void score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
             std::span<RowSample> scores) override {
    score_rows(ctx_, sampling_, logits, best, rows, scores);
  }

 private:
  // Ops have run when their call returns, so the host's values are read where they are.
  const std::byte* stage_bytes(std::span<const std::byte> values) override { return values.data(); }
  void upload_bytes(std::span<const std::byte> values, std::byte* to) override {
    std::ranges::copy(values, to);
  }
  void download_bytes(const std::byte* from, std::span<std::byte> to) override {
    std::copy_n(from, to.size(), to.begin());
  }

  Buffer workspace_;
  OpContext ctx_;
  SamplingScratch sampling_;
};

}  // namespace

Result<std::unique_ptr<OpStream>> CpuDevice::make_stream(const StreamLimits& limits) {
  QUIRE_ASSIGN_OR_RETURN(Buffer workspace, Buffer::allocate(stream_memory(limits).workspace));
  return std::unique_ptr<OpStream>(
      std::make_unique<CpuStream>(pool_, table_, std::move(workspace), limits));
}

}  // namespace quire
