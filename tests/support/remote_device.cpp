#include "support/remote_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "support/remote_queue.h"

namespace quire::test {
namespace {

constexpr std::uint64_t kStaged = std::uint64_t{32} << 20;

std::vector<MatmulPart> copied(std::span<const MatmulPart> parts) {
  return {parts.begin(), parts.end()};
}

PackedWeight near_weight(const RemoteMemory& memory, const PackedWeight& weight) {
  const auto bytes = weight.bytes();
  return PackedWeight::view(weight.layout(), weight.outputs(), weight.inputs(),
                            {memory.near(bytes.data()), bytes.size()}, nullptr);
}

// Parts whose pointers can be used; it keeps their weights.
struct NearParts {
  NearParts(const RemoteMemory& memory, std::vector<MatmulPart> far) : parts(std::move(far)) {
    weights.reserve(parts.size());
    for (MatmulPart& part : parts) {
      weights.push_back(near_weight(memory, *part.weight));
      part.weight = &weights.back();
      part.out = memory.near(part.out);
      part.bias = memory.near(part.bias);
    }
  }
  std::vector<PackedWeight> weights;
  std::vector<MatmulPart> parts;
};

// The same of the matrices of heads.
std::vector<PackedWeight> near_weights(const RemoteMemory& memory,
                                       std::span<const PackedWeight> far) {
  std::vector<PackedWeight> weights;
  weights.reserve(far.size());
  for (const PackedWeight& weight : far) weights.push_back(near_weight(memory, weight));
  return weights;
}

// The same of the experts of a mixture.
std::vector<ExpertWeights> near_experts(const RemoteMemory& memory,
                                        std::span<const ExpertWeights> far) {
  std::vector<ExpertWeights> experts;
  experts.reserve(far.size());
  for (const ExpertWeights& expert : far) {
    experts.push_back({.gate = near_weight(memory, expert.gate),
                       .up = near_weight(memory, expert.up),
                       .down = near_weight(memory, expert.down)});
  }
  return experts;
}

RopeAndCacheArgs near_heads(const RemoteMemory& memory, RopeAndCacheArgs heads) {
  heads.qkv = memory.near(heads.qkv);
  heads.positions = memory.near(heads.positions);
  heads.slot_mapping = memory.near(heads.slot_mapping);
  heads.rope_table = memory.near(heads.rope_table);
  heads.q_norm = memory.near(heads.q_norm);
  heads.k_norm = memory.near(heads.k_norm);
  heads.kv = memory.near(heads.kv);
  return heads;
}

// Reads the host's arrays when its turn comes, and keeps what the step needs of them.
class RemotePlannedAttention final : public PlannedAttention {
 public:
  RemotePlannedAttention(RemoteQueue& queue, std::unique_ptr<PlannedAttention> home)
      : queue_(queue), home_(std::move(home)) {}

  void build(const AttentionBatch& batch) override {
    queue_.add([this, batch] { build_now(batch); });
  }
  const PlannedAttention& home() const { return *home_; }

 private:
  void build_now(AttentionBatch batch) {
    const auto count = static_cast<std::size_t>(batch.num_seqs);
    query_start_loc_.assign(batch.query_start_loc, batch.query_start_loc + count + 1);
    seq_lens_.assign(batch.seq_lens, batch.seq_lens + count);
    block_ids_.resize(count);
    block_tables_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t blocks = ceil_div(std::int64_t{seq_lens_[i]}, batch.block_size);
      block_ids_[i].assign(batch.block_tables[i], batch.block_tables[i] + blocks);
      block_tables_.push_back(block_ids_[i].data());
    }
    batch.query_start_loc = query_start_loc_.data();
    batch.seq_lens = seq_lens_.data();
    batch.block_tables = block_tables_.data();
    home_->build(batch);
  }

  RemoteQueue& queue_;
  std::unique_ptr<PlannedAttention> home_;
  std::vector<std::int32_t> query_start_loc_;
  std::vector<std::int32_t> seq_lens_;
  std::vector<std::vector<BlockId>> block_ids_;
  std::vector<const BlockId*> block_tables_;
};

class RemoteStream final : public OpStream {
 public:
  RemoteStream(const RemoteMemory& memory, Buffer staging, std::unique_ptr<OpStream> home,
               std::atomic<std::uint64_t>& num_ops)
      : memory_(memory), staging_(std::move(staging)), home_(std::move(home)), queue_(num_ops) {}

  void prefault() override {}
  void begin_step() override { staged_ = 0; }
  void copy(const std::byte* from, std::uint64_t bytes, std::byte* to) override {
    queue_.add([=, this] { home_->copy(near(from), bytes, near(to)); });
  }
  Status synchronize() override {
    queue_.run();
    return {};
  }
  std::unique_ptr<PlannedAttention> plan_attention(std::int64_t max_tokens,
                                                   const AttentionHeads& heads) override {
    return std::make_unique<RemotePlannedAttention>(queue_,
                                                    home_->plan_attention(max_tokens, heads));
  }

  void matmul(const float* x, std::int64_t x_stride, std::int64_t rows, ActivationMode mode,
              std::span<const MatmulPart> parts, const Stage& stage) override {
    queue_.add([=, this, far = copied(parts)] {
      const NearParts own(memory_, far);
      home_->matmul(near(x), x_stride, rows, mode, own.parts, stage);
    });
  }
  void matmul_and_best(const float* x, std::int64_t x_stride, std::int64_t rows,
                       ActivationMode mode, const MatmulPart& part, RowBest* best,
                       const Stage& stage) override {
    queue_.add([=, this] {
      const NearParts own(memory_, {part});
      home_->matmul_and_best(near(x), x_stride, rows, mode, own.parts[0], near(best), stage);
    });
  }
  void gated_matmul(const float* x, std::int64_t rows, ActivationMode mode,
                    const GatedProducts& products, float* out, const Stage& stage) override {
    queue_.add([=, this] {
      const PackedWeight gate = near_weight(memory_, *products.gate);
      const PackedWeight up = near_weight(memory_, *products.up);
      const GatedProducts own = {.gate = &gate,
                                 .up = &up,
                                 .gate_bias = near(products.gate_bias),
                                 .up_bias = near(products.up_bias),
                                 .activation = products.activation,
                                 .clamped = products.clamped};
      home_->gated_matmul(near(x), rows, mode, own, near(out), stage);
    });
  }
  void matmul_by_head(std::int64_t rows, ActivationMode mode, const HeadProducts& products,
                      const Stage& stage) override {
    queue_.add([=, this, own = products]() mutable {
      const std::vector<PackedWeight> weights = near_weights(memory_, own.weights);
      own.weights = weights;
      own.x = near(own.x);
      own.out = near(own.out);
      home_->matmul_by_head(rows, mode, own, stage);
    });
  }
  void route(const RouteArgs& args) override {
    queue_.add([=, this, own = args]() mutable {
      own.logits = near(own.logits);
      own.choice_bias = near(own.choice_bias);
      own.experts = near(own.experts);
      own.weights = near(own.weights);
      home_->route(own);
    });
  }
  void expert_mlp(const float* x, std::int64_t rows, const ExpertProducts& products,
                  float* out) override {
    queue_.add([=, this, own = products]() mutable {
      const std::vector<ExpertWeights> experts = near_experts(memory_, own.experts);
      own.experts = experts;
      own.gate_biases = near(own.gate_biases);
      own.up_biases = near(own.up_biases);
      own.down_biases = near(own.down_biases);
      own.chosen = near(own.chosen);
      own.weights = near(own.weights);
      home_->expert_mlp(near(x), rows, own, near(out));
    });
  }
  void qkv_matmul(const float* x, ActivationMode mode, std::span<const MatmulPart> parts,
                  const RopeAndCacheArgs& heads, const Stage& stage) override {
    queue_.add([=, this, far = copied(parts)] {
      const NearParts own(memory_, far);
      home_->qkv_matmul(near(x), mode, own.parts, near_heads(memory_, heads), stage);
    });
  }
  void rope_and_cache(const RopeAndCacheArgs& heads) override {
    queue_.add([=, this] { home_->rope_and_cache(near_heads(memory_, heads)); });
  }
  void attention(const PlannedAttention& plan, const AttentionArgs& args) override {
    const auto* own = static_cast<const RemotePlannedAttention*>(&plan);
    queue_.add([=, this, near_args = args]() mutable {
      near_args.q = near(near_args.q);
      near_args.alibi_slopes = near(near_args.alibi_slopes);
      near_args.sinks = near(near_args.sinks);
      near_args.kv = near(near_args.kv);
      near_args.out = near(near_args.out);
      home_->attention(own->home(), near_args);
    });
  }
  void embedding(const PackedWeight& table, const TokenId* token_ids, std::int64_t num_tokens,
                 float* out) override {
    queue_.add([=, this, far = &table] {
      home_->embedding(near_weight(memory_, *far), near(token_ids), num_tokens, near(out));
    });
  }
  void gather_rows(const float* x, const std::int64_t* rows, std::int64_t num_rows,
                   std::int64_t cols, float* out) override {
    queue_.add([=, this] { home_->gather_rows(near(x), near(rows), num_rows, cols, near(out)); });
  }
  void rms_norm(const float* x, const float* weight, float epsilon, std::int64_t rows,
                std::int64_t cols, float* out) override {
    queue_.add(
        [=, this] { home_->rms_norm(near(x), near(weight), epsilon, rows, cols, near(out)); });
  }
  void rms_norm_and_add(const float* x, const float* weight, float epsilon, std::int64_t rows,
                        std::int64_t cols, float* out) override {
    queue_.add([=, this] {
      home_->rms_norm_and_add(near(x), near(weight), epsilon, rows, cols, near(out));
    });
  }
  void rms_norm_in_place(const float* weight, float epsilon, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride, float* x) override {
    queue_.add([=, this] {
      home_->rms_norm_in_place(near(weight), epsilon, rows, cols, stride, near(x));
    });
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                  std::int64_t rows, std::int64_t cols, float* out) override {
    queue_.add([=, this] {
      home_->layer_norm(near(x), near(weight), near(bias), epsilon, rows, cols, near(out));
    });
  }
  void activate_in_place(Activation activation, std::int64_t count, float* x) override {
    queue_.add([=, this] { home_->activate_in_place(activation, count, near(x)); });
  }
  void xielu_in_place(const Xielu& curve, std::int64_t count, float* x) override {
    queue_.add([=, this] { home_->xielu_in_place(curve, count, near(x)); });
  }
  void scale_by_position(const PositionScale& scale, const std::int32_t* positions,
                         std::int64_t rows, std::int64_t cols, std::int64_t stride,
                         float* x) override {
    queue_.add([=, this] {
      home_->scale_by_position(scale, near(positions), rows, cols, stride, near(x));
    });
  }
  void scale_in_place(float factor, std::int64_t count, float* x) override {
    queue_.add([=, this] { home_->scale_in_place(factor, count, near(x)); });
  }
  void clamp_in_place(float limit, std::int64_t count, float* x) override {
    queue_.add([=, this] { home_->clamp_in_place(limit, count, near(x)); });
  }
  void add_position_rows(const float* table, const std::int32_t* positions, std::int64_t rows,
                         std::int64_t cols, float* x) override {
    queue_.add(
        [=, this] { home_->add_position_rows(near(table), near(positions), rows, cols, near(x)); });
  }
  void soft_cap_and_best(float cap, std::int64_t rows, std::int64_t cols, float* x,
                         RowBest* best) override {
    queue_.add([=, this] { home_->soft_cap_and_best(cap, rows, cols, near(x), near(best)); });
  }
  void scale_and_add(const float* x, float factor, std::int64_t count, float* out) override {
    queue_.add([=, this] { home_->scale_and_add(near(x), factor, count, near(out)); });
  }
  void add_gated(const float* x, const float* gates, std::int64_t rows, std::int64_t cols,
                 float* out) override {
    queue_.add([=, this] { home_->add_gated(near(x), near(gates), rows, cols, near(out)); });
  }
  void multiply_rows(const float* by, std::int64_t by_stride, std::int64_t rows, std::int64_t cols,
                     float* x) override {
    queue_.add([=, this] { home_->multiply_rows(near(by), by_stride, rows, cols, near(x)); });
  }
  void keep_largest(float deviations, std::int64_t rows, std::int64_t cols, float* x) override {
    queue_.add([=, this] { home_->keep_largest(deviations, rows, cols, near(x)); });
  }
  void match_rms(const float* like, float floor, std::int64_t rows, std::int64_t cols,
                 float* x) override {
    queue_.add([=, this] { home_->match_rms(near(like), floor, rows, cols, near(x)); });
  }
  void predict_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       float* out) override {
    queue_.add([=, this] { home_->predict_streams(rows, cols, near_streams(args), near(out)); });
  }
  void correct_streams(std::int64_t rows, std::int64_t cols, const AltUpArgs& args,
                       const float* scale, float* x) override {
    queue_.add([=, this] {
      home_->correct_streams(rows, cols, near_streams(args), near(scale), near(x));
    });
  }
  void short_conv(std::int64_t rows, const ShortConvArgs& args) override {
    queue_.add([=, this] {
      ShortConvArgs here = args;
      here.x = near(args.x);
      here.weight = near(args.weight);
      here.bias = near(args.bias);
      here.states.data = near(args.states.data);
      here.states.runs = near(args.states.runs);
      here.out = near(args.out);
      home_->short_conv(rows, here);
    });
  }
  void sample(const float* logits, const RowBest* best, std::span<const SampleArgs> rows,
              std::span<RowSample> samples) override {
    std::fill(samples.begin(), samples.end(), RowSample{});
    queue_.add([=, this] { home_->sample(near(logits), near(best), rows, samples); });
  }
  void score(const float* logits, const RowBest* best, std::span<const ScoreArgs> rows,
             std::span<RowSample> scores) override {
    std::fill(scores.begin(), scores.end(), RowSample{});
    queue_.add([=, this] { home_->score(near(logits), near(best), rows, scores); });
  }

 private:
  template <typename T>
  T* near(T* far) const {
    return memory_.near(far);
  }
  AltUpArgs near_streams(AltUpArgs args) const {
    args.streams = near(args.streams);
    args.router = near(args.router);
    args.weight = near(args.weight);
    return args;
  }
  const std::byte* stage_bytes(std::span<const std::byte> values) override {
    std::byte* const to = staging_.data() + staged_;
    staged_ += (values.size() + 63) / 64 * 64;
    if (staged_ > staging_.size()) {
      std::fprintf(stderr, "remote device: more than %llu bytes are staged in one step\n",
                   static_cast<unsigned long long>(staging_.size()));
      std::abort();
    }
    queue_.add([=, this] { std::copy(values.begin(), values.end(), near(to)); });
    return to;
  }
  void upload_bytes(std::span<const std::byte> values, std::byte* to) override {
    queue_.add([=, this] { std::copy(values.begin(), values.end(), near(to)); });
  }
  void download_bytes(const std::byte* from, std::span<std::byte> to) override {
    std::fill(to.begin(), to.end(), std::byte{0xFF});
    queue_.add([=, this] { std::copy_n(near(from), to.size(), to.begin()); });
  }

  const RemoteMemory& memory_;
  Buffer staging_;
  std::uint64_t staged_ = 0;
  std::unique_ptr<OpStream> home_;
  RemoteQueue queue_;
};

}  // namespace

Result<std::unique_ptr<Device>> RemoteDevice::create(int num_threads, const OpTable& table) {
  QUIRE_ASSIGN_OR_RETURN(auto memory, RemoteMemory::create());
  return std::unique_ptr<Device>(new RemoteDevice(std::move(memory), num_threads, table));
}

Result<Buffer> RemoteDevice::allocate(std::uint64_t bytes) {
  if (bytes == 0) return Buffer();
  std::byte* const data = memory_->take(bytes);
  if (data == nullptr) {
    return Status::resource_exhausted(fmt::format("no room for {} bytes more", bytes));
  }
  return Buffer(*this, data, bytes);
}

Result<std::unique_ptr<OpStream>> RemoteDevice::make_stream(const StreamLimits& limits) {
  QUIRE_ASSIGN_OR_RETURN(Buffer staging, allocate(kStaged));
  QUIRE_ASSIGN_OR_RETURN(auto home, home_.make_stream(limits));
  return std::unique_ptr<OpStream>(
      std::make_unique<RemoteStream>(*memory_, std::move(staging), std::move(home), num_ops_));
}

Result<std::shared_ptr<const Buffer>> RemoteDevice::moved_in(std::span<const std::byte> bytes) {
  QUIRE_ASSIGN_OR_RETURN(Buffer buffer, allocate(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), memory_->near(buffer.data()));
  return std::make_shared<const Buffer>(std::move(buffer));
}

Result<PackedWeight> RemoteDevice::adopt(PackedWeight packed) {
  QUIRE_ASSIGN_OR_RETURN(auto buffer, moved_in(std::as_bytes(packed.bytes())));
  const auto* const data = reinterpret_cast<const std::uint8_t*>(buffer->data());
  return PackedWeight::view(packed.layout(), packed.outputs(), packed.inputs(),
                            {data, packed.bytes().size()}, buffer);
}

Result<DeviceFloats> RemoteDevice::upload(std::vector<float> values) {
  if (values.empty()) return DeviceFloats();
  QUIRE_ASSIGN_OR_RETURN(auto buffer, moved_in(std::as_bytes(std::span(values))));
  return DeviceFloats(reinterpret_cast<const float*>(buffer->data()), std::ssize(values), buffer);
}

}  // namespace quire::test
