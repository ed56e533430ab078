#include "kernels/cuda/stream.h"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/errors.h"
#include "kernels/cuda/op_stages.h"
#include "kernels/cuda/piece_graphs.h"
#include "kernels/cuda/planned_attention.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/cuda/sampling/token_sampling.h"
#include "kernels/cuda/stage_times.h"
#include "kernels/cuda/transfers.h"
#include "kernels/matmul_call.h"
#include "tensor/buffer.h"

namespace quire::cuda {
namespace {

class CudaStream final : public OpStream {
 public:
  CudaStream(const StreamHost& host, CUstream_st* stream, Buffer workspace, Transfers transfers,
             GraphMode graph_mode, const StreamLimits& limits)
      : host_(host),
        stream_(stream),
        workspace_(std::move(workspace)),
        transfers_(std::move(transfers)),
        graphs_(stream, graph_mode),
        times_(stream),
        sampling_(
            transfers_, [this] { return launch(kSampleStage); }, *host.threads, *host.table,
            limits) {}
  ~CudaStream() override {
    (void)cudaSetDevice(host_.device_index);
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }

  void record_spans(SpanRecorder& spans, SpanRecorder& on_device) override {
    OpStream::record_spans(spans, on_device);
    times_.record_in(on_device);
  }
  void prefault() override {}  // allocated memory is there

  void begin_step() override {
    // Of the thread that calls from now on.
    (void)cudaSetDevice(host_.device_index);
    transfers_.begin_step();
    sampling_.begin_step();
    if (spans() != nullptr) times_.begin_step(spans()->open_id());
  }
  void copy(const std::byte* from, std::uint64_t bytes, std::byte* to) override {
    (void)launch(kCopyStage);
    transfers_.copy(from, bytes, to);
  }
  Status synchronize() override {
    if (graphs_.recording()) return Status::internal("a piece of a step waits for the GPU");
    {
      times_.mark(nullptr, {}, false);
      const ScopedSpan span(spans(), kWaitStage);
      QUIRE_RETURN_IF_ERROR(transfers_.synchronize());
    }
    // Both look at what was downloaded, which is forgotten then.
    Status status = sampling_.finish();
    transfers_.finish_downloads();
    return status;
  }

  std::unique_ptr<PlannedAttention> plan_attention(std::int64_t /*max_tokens*/,
                                                   const AttentionHeads& /*heads*/) override {
    return std::make_unique<CudaPlannedAttention>(transfers_, host_.multiprocessors,
                                                  workspace_.size());
  }

  void run_piece(const PieceKey& key, std::span<const std::unique_ptr<PlannedAttention>> plans,
                 const std::function<void()>& ops) override {
    transfers_.enqueue_staged();
    if (times_.timing()) return run_timed(ops);
    piece_key_ = key;
    for (const auto& each : plans) {
      const auto& plan = static_cast<const CudaPlannedAttention&>(*each);
      if (!plan.repeats()) return ops();
      plan.add_to(piece_key_);
    }
    host_.progress->fetch_add(1, std::memory_order_relaxed);
    transfers_.keep_error(graphs_.run(piece_key_.words(), ops));
  }

  void matmul(const float* x, std::int64_t x_stride, std::int64_t rows, ActivationMode mode,
              std::span<const MatmulPart> parts, const Stage& stage) override {
    cuda::matmul(launch(stage, cost_of(parts, rows)), x, x_stride, rows, mode, parts);
  }
  void matmul_and_best(const float* x, std::int64_t x_stride, std::int64_t rows,
                       ActivationMode mode, const MatmulPart& part, RowBest* best,
                       const Stage& stage) override {
    cuda::matmul(launch(stage, cost_of({&part, 1}, rows)), x, x_stride, rows, mode, {&part, 1});
    cuda::find_best(launch(kBestStage), part.out, part.out_stride, rows, part.weight->outputs(),
                    best);
  }
  void gated_matmul(const float* x, std::int64_t rows, ActivationMode mode,
                    const GatedProducts& products, float* out, const Stage& stage) override {
    const MatmulPart parts[] = {{.weight = products.gate}, {.weight = products.up}};
    cuda::gated_matmul(launch(stage, cost_of(parts, rows)), x, rows, mode, products, out);
  }
  void matmul_by_head(std::int64_t rows, ActivationMode mode, const HeadProducts& products,
                      const Stage& stage) override {
    cuda::matmul_by_head(launch(stage), rows, mode, products);
  }
  void route(const RouteArgs& args) override { cuda::route(launch(kRouteStage), args); }
  void expert_mlp(const float* x, std::int64_t rows, const ExpertProducts& products,
                  float* out) override {
    cuda::expert_mlp(launch(kExpertsStage), x, rows, products, out);
  }
  void qkv_matmul(const float* x, ActivationMode mode, std::span<const MatmulPart> parts,
                  const RopeAndCacheArgs& heads, const Stage& stage) override {
    cuda::matmul(launch(stage, cost_of(parts, heads.num_tokens)), x, parts[0].weight->inputs(),
                 heads.num_tokens, mode, parts);
    cuda::rope_and_cache(launch(kRopeAndCacheStage), heads);
  }
  void rope_and_cache(const RopeAndCacheArgs& heads) override {
    cuda::rope_and_cache(launch(kRopeAndCacheStage), heads);
  }
  void attention(const PlannedAttention& plan, const AttentionArgs& args) override {
    const auto layer = static_cast<const CudaPlannedAttention&>(plan).layer(args);
    if (graphs_.recording() && !layer.repeats) graphs_.refuse();
    cuda::attention(launch(kAttentionStage), layer.inputs, args, layer.split);
  }
  void embedding(const PackedWeight& table, const TokenId* token_ids, std::int64_t num_tokens,
                 float* out) override {
    cuda::embedding(launch(kEmbeddingStage), table, token_ids, num_tokens, out);
  }
  void gather_rows(const float* x, const std::int64_t* rows, std::int64_t num_rows,
                   std::int64_t cols, float* out) override {
    cuda::gather_rows(launch(kGatherStage), x, rows, num_rows, cols, out);
  }
  void rms_norm(const float* x, const float* weight, float epsilon, std::int64_t rows,
                std::int64_t cols, float* out) override {
    cuda::rms_norm(launch(kRmsNormStage), x, weight, epsilon, rows, cols, out);
  }
  void rms_norm_and_add(const float* x, const float* weight, float epsilon, std::int64_t rows,
                        std::int64_t cols, float* out) override {
    cuda::rms_norm_and_add(launch(kRmsNormAndAddStage), x, weight, epsilon, rows, cols, out);
  }
  void rms_norm_in_place(const float* weight, float epsilon, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride, float* x) override {
    cuda::rms_norm_in_place(launch(kRmsNormStage), weight, epsilon, rows, cols, stride, x);
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                  std::int64_t rows, std::int64_t cols, float* out) override {
    cuda::layer_norm(launch(kLayerNormStage), x, weight, bias, epsilon, rows, cols, out);
  }
  void activate_in_place(Activation activation, std::int64_t count, float* x) override {
    cuda::activate_in_place(launch(kActivationStage), activation, count, x);
  }
  void xielu_in_place(const Xielu& curve, std::int64_t count, float* x) override {
    cuda::xielu_in_place(launch(kActivationStage), curve, count, x);
  }
  void scale_by_position(const PositionScale& scale, const std::int32_t* positions,
                         std::int64_t rows, std::int64_t cols, std::int64_t stride,
                         float* x) override {
    cuda::scale_by_position(launch(kPositionsStage), scale, positions, rows, cols, stride, x);
  }
  void scale_in_place(float factor, std::int64_t count, float* x) override {
    cuda::scale_in_place(launch(kScaleStage), factor, count, x);
  }
  void clamp_in_place(float limit, std::int64_t count, float* x) override {
    cuda::clamp_in_place(launch(kClampStage), limit, count, x);
  }
  void add_position_rows(const float* table, const std::int32_t* positions, std::int64_t rows,
                         std::int64_t cols, float* x) override {
    cuda::add_position_rows(launch(kPositionsStage), table, positions, rows, cols, x);
  }
  void soft_cap_and_best(float cap, std::int64_t rows, std::int64_t cols, float* x,
                         RowBest* best) override {
    cuda::soft_cap_in_place(launch(kSoftCapStage), cap, rows * cols, x);
    cuda::find_best(launch(kBestStage), x, cols, rows, cols, best);
  }
  void scale_and_add(const float* x, float factor, std::int64_t count, float* out) override {
    cuda::scale_and_add(launch(kScaleAndAddStage), x, factor, count, out);
  }
  void add_gated(const float* x, const float* gates, std::int64_t rows, std::int64_t cols,
                 float* out) override {
    cuda::add_gated(launch(kAddGatedStage), x, gates, rows, cols, out);
  }
  void multiply_rows(const float* by, std::int64_t by_stride, std::int64_t rows, std::int64_t cols,
                     float* x) override {
    cuda::multiply_rows(launch(kMultiplyStage), by, by_stride, rows, cols, x);
  }
  void keep_largest(float deviations, std::int64_t rows, std::int64_t cols, float* x) override {
    cuda::keep_largest(launch(kKeepLargestStage), deviations, rows, cols, x);
  }
  void match_rms(const float* like, float floor, std::int64_t rows, std::int64_t cols,
                 float* x) override {
    cuda::match_rms(launch(kMatchStage), like, floor, rows, cols, x);
  }
  void predict_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       float* out) override {
    cuda::predict_streams(launch(kPredictStage), rows, cols, args, out);
  }
  void correct_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       const float* scale, float* x) override {
    cuda::correct_streams(launch(kCorrectStage), rows, cols, args, scale, x);
  }
  void short_conv(std::int64_t rows, const ShortConvArgs& args) override {
    cuda::short_conv(launch(kShortConvStage), rows, args);
  }
  void sample(const float* logits, const RowBest* best, std::span<const SampleArgs> rows,
              std::span<RowSample> samples) override {
    sampling_.sample(logits, best, rows, samples);
    times_.mark(nullptr, {}, false);
  }
  void score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
             std::span<RowSample> scores) override {
    sampling_.score(logits, best, rows, scores);
    times_.mark(nullptr, {}, false);
  }

 private:
  // As the kernels of a graph run, which wait for nobody.
  void run_timed(const std::function<void()>& ops) {
    const std::size_t num_marks = times_.num_marks();
    if (!graphs_.run_once(ops)) {
      times_.forget_from(num_marks);
      ops();
    }
    times_.mark(nullptr, {}, false);
  }
  // What was staged before an op is on its way before it.
  Launch launch(const Stage& stage, const SpanCost& cost = {}) {
    if (!graphs_.recording()) {
      transfers_.enqueue_staged();
    } else if (transfers_.has_staged()) {
      graphs_.refuse();  // only the host knows what is to be copied next time
    }
    graphs_.prepare_op();
    times_.mark(&stage, cost, graphs_.recording());
    host_.progress->fetch_add(1, std::memory_order_relaxed);
    return {.stream = stream_,
            .multiprocessors = host_.multiprocessors,
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.size()};
  }
  const std::byte* stage_bytes(std::span<const std::byte> values) override {
    const PinnedPieces::Place place = transfers_.stage(values.size());
    std::copy(values.begin(), values.end(), place.host);
    return place.device;
  }
  void upload_bytes(std::span<const std::byte> values, std::byte* to) override {
    if (graphs_.recording()) graphs_.refuse();  // the values are others next time
    (void)launch(kCopyStage);
    transfers_.upload(values, to);
  }
  void download_bytes(const std::byte* from, std::span<std::byte> to) override {
    transfers_.download_to(from, to);
  }

  StreamHost host_;
  CUstream_st* stream_;
  Buffer workspace_;
  Transfers transfers_;
  PieceGraphs graphs_;
  StageTimes times_;
  PieceKey piece_key_;
  TokenSampling sampling_;
};

}  // namespace

std::uint64_t workspace_bytes(const StreamLimits& limits, int multiprocessors) {
  return std::max({sampling_workspace_bytes(limits.vocab_size, limits.max_sampled_rows),
                   products_workspace_bytes(limits), rows_workspace_bytes(limits),
                   attention_workspace_bytes(limits, multiprocessors)});
}

std::uint64_t staged_bytes(const StreamLimits& limits) {
  // Tokens, positions and places of rows, and block tables of the smallest blocks that are usual,
  // with room (CudaPlannedAttention).
  const std::int64_t tables =
      limits.attention.max_num_seqs * (limits.attention.max_seq_len / 16 * 5 / 4 + 64);
  return (std::uint64_t{1} << 20) + static_cast<std::uint64_t>(64 * limits.max_rows + 4 * tables);
}

Result<std::unique_ptr<OpStream>> make_stream(const StreamHost& host, DeviceMemory& memory,
                                              const StreamLimits& limits) {
  if (limits.experts.num_experts > kMostRoutedExperts) {
    return Status::unimplemented(
        fmt::format("a mixture of {} experts; kernels of the GPU choose among {} at most",
                    limits.experts.num_experts, kMostRoutedExperts),
        "use --device cpu");
  }
  QUIRE_ASSIGN_OR_RETURN(const GraphMode graphs, graph_mode());
  QUIRE_ASSIGN_OR_RETURN(Buffer workspace,
                         memory.allocate(workspace_bytes(limits, host.multiprocessors)));
  QUIRE_RETURN_IF_ERROR(to_status(cudaSetDevice(host.device_index), "use the GPU"));
  CUstream_st* stream = nullptr;
  QUIRE_RETURN_IF_ERROR(
      to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream"));
  auto transfers = Transfers::create(stream, staged_bytes(limits),
                                     (std::uint64_t{1} << 20) + limits.downloaded_bytes);
  if (!transfers.ok()) {
    (void)cudaStreamDestroy(stream);
    return transfers.status();
  }
  return std::unique_ptr<OpStream>(std::make_unique<CudaStream>(
      host, stream, std::move(workspace), std::move(*transfers), graphs, limits));
}

}  // namespace quire::cuda
