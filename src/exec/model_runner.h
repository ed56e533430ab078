// Runs steps on one model: applies a plan to the batch, computes hidden states and logits, samples.
// All memory is reserved at creation; a step allocates only its small results. Everything that a
// step computes with lies in the device's memory: what the host knows is staged, results are
// downloaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/device_part.h"
#include "exec/executor.h"
#include "exec/input_batch.h"
#include "exec/kv_offloader.h"
#include "exec/model_runner_config.h"
#include "exec/pooler.h"
#include "exec/sampler.h"
#include "kernels/device.h"
#include "models/decoder_model.h"
#include "models/model_devices.h"
#include "nn/crossing.h"
#include "nn/distant_experts.h"
#include "tensor/arena.h"

namespace quire {

// Bytes that a runner needs besides the KV cache.
struct RunnerMemory {
  std::uint64_t hidden = 0;  // hidden states of a step
  std::uint64_t inner = 0;   // those of inner layers
  std::uint64_t normed = 0;  // rows whose logits are computed, or that are pooled
  std::uint64_t pooled = 0;  // what prompts are pooled to: sums, and the results at once
  std::uint64_t logits = 0;
  std::uint64_t best = 0;       // the largest logit of each row
  std::uint64_t arena = 0;      // a layer's activations
  std::uint64_t workspace = 0;  // scratch of the kernels
  std::uint64_t sampler = 0;
  std::uint64_t states = 0;     // those that results have
  std::uint64_t batch = 0;      // the requests' tokens and block tables, the step's arrays
  std::uint64_t downloads = 0;  // what a device downloads in the middle of a step goes through it

  // Of what the host computes of the model (ModelRunnerConfig::split).
  std::uint64_t host_hidden = 0;
  std::uint64_t host_arena = 0;
  std::uint64_t host_experts = 0;    // results of experts
  std::uint64_t host_transfers = 0;  // what goes from one device to the other
  std::uint64_t host_workspace = 0;

  // Of the device that computes, and of the host, which may be the same.
  std::uint64_t on_device() const { return hidden + inner + normed + logits + best + arena; }
  std::uint64_t on_host() const { return pooled + sampler + states + batch + downloads; }
  // Of the host for its part, in the memory of its device, and besides.
  std::uint64_t of_host_part() const { return host_hidden + host_arena + host_experts; }
  std::uint64_t activations() const { return on_device() + on_host(); }
};

class ModelRunner {
 public:
  // Borrows the model and the devices that it was loaded to for its life. kResourceExhausted.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model,
                                                     const ModelDevices& devices,
                                                     const ModelRunnerConfig& config);

  // The way of blocks to files and back; borrows what the runner has for its life. To be called
  // before the first step. kResourceExhausted.
  Status offload_to(std::unique_ptr<BlockFile> file);
  KvOffloader* offloader() const { return offloader_.get(); }  // null: there is none

  // Of layers that draft for another model, before each forward(): its state of each row of the
  // step, [rows][state_size], or those that they have given, [rows][hidden_size]. They must stay as
  // they are until the step has sampled.
  void give_states(std::span<const float> states) { given_states_ = states; }

  // A step in two parts, called one after the other by one thread. First all but the tokens; then
  // the tokens, chosen among those of `masks` where a row has one.
  Status forward(const SchedulerOutput& step, ModelRunnerOutput& result);
  Status sample(std::span<const TokenMask> masks, ModelRunnerOutput& result);

  // From the next step on its parts and ops are recorded by the thread that runs it, as
  // OpStream::record_spans() says. Borrows both for its life.
  void record_spans(SpanRecorder& spans, SpanRecorder& on_device);

  std::uint64_t kv_cache_bytes() const;

  // Touches all memory, so that no step pays for a first use.
  void prefault();

  // The model's weights lie elsewhere from now on; no step is in flight.
  void model_changed() { ++model_version_; }

  // Bytes of one block of the KV cache, in all layers; and of one page.
  static std::uint64_t kv_block_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config);
  static SplitBytes kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config);

  // What its steps are at most, and what the host's part of them is.
  static StreamLimits stream_limits(const DecoderSpec& spec, const ModelRunnerConfig& config);
  static StreamLimits host_stream_limits(const DecoderSpec& spec, const ModelRunnerConfig& config);
  // For a model and its limits; `stream`: what a stream for stream_limits() needs, and `host` one
  // for host_stream_limits().
  static RunnerMemory memory_of(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                const StreamMemory& stream, const StreamMemory& host = {});

 private:
  Status prepare(const SchedulerOutput& step, ModelRunnerOutput& result);
  Status stage_states();
  ForwardContext context();
  Status compute_hidden(ForwardContext& ctx);
  // What the host computes, brought to `ctx`; until the end of a scope of arena_.
  Status compute_host_layers(ForwardContext& ctx);
  // All that a step's layers compute, and the logits of `rows`, as far as it can be in one piece.
  Status compute(std::span<const InputBatch::SampleRow> rows);
  const PieceKey& piece_key(const ForwardContext& ctx, const std::int64_t* rows);
  // The logits of at most rows_at_once() rows of the step, into logits_.
  template <typename Row>
  void compute_logits(ForwardContext& ctx, std::span<const Row> rows) {
    if (!rows.empty()) compute_logits(ctx, staged_rows(rows));
  }
  // `rows`: of row_indices_, staged.
  void compute_logits(ForwardContext& ctx, const std::int64_t* rows) {
    model_.logits(ctx, hidden_, rows, std::ssize(row_indices_), normed_, logits_, best_);
  }
  template <typename Row>
  std::span<const Row> rows_at_once(std::span<const Row> rows) const {
    return rows.first(std::min(rows.size(), static_cast<std::size_t>(config_.rows_at_once())));
  }
  Status score_prompts(ForwardContext& ctx, ModelRunnerOutput& result);
  Status pool_prompts(ForwardContext& ctx);
  Status give_back_states(ModelRunnerOutput& result);
  void map_tokens(ModelRunnerOutput& result) const;

  template <typename Row>
  const std::int64_t* staged_rows(std::span<const Row> rows) {
    row_indices_.clear();
    for (const Row& row : rows) row_indices_.push_back(row.row);
    return staged_row_indices();
  }
  const std::int64_t* staged_row_indices() {
    return ops().stage(std::span<const std::int64_t>(row_indices_));
  }
  OpStream& ops() const { return main_->ops(); }
  std::int64_t num_tokens() const { return batch_.num_tokens(); }

  ModelRunner(const Model& model, const ModelRunnerConfig& config, std::unique_ptr<DevicePart> main,
              std::unique_ptr<DevicePart> host);

  const Model& model_;
  ModelRunnerConfig config_;
  std::unique_ptr<DevicePart> main_;
  std::unique_ptr<DevicePart> host_;  // null: the main device computes all
  InputBatch batch_;
  Sampler sampler_;
  Pooler pooler_;
  std::span<const float> given_states_;
  const float* states_ = nullptr;  // the same, staged
  std::int64_t state_size_ = 0;
  std::vector<std::int64_t> pairs_;  // ForwardContext::pairs
  const std::int64_t* staged_pairs_ = nullptr;
  std::vector<std::int64_t> row_indices_;  // whose logits or final states are computed
  std::int64_t model_version_ = 0;
  PieceKey piece_key_;

  // Parts of the main device's memory.
  float* hidden_ = nullptr;  // [max_num_batched_tokens][hidden_size]
  float* inner_ = nullptr;   // [inner_layers][max_num_batched_tokens][hidden_size]
  float* normed_ = nullptr;  // [rows_at_once][hidden_size], at least as many as inner_layers
  float* logits_ = nullptr;  // [rows_at_once][vocab_size]
  RowBest* best_ = nullptr;  // [rows_at_once]
  Arena arena_;
  // Where the host has a part, of its memory.
  float* host_hidden_ = nullptr;  // [max_num_batched_tokens][hidden_size]
  Arena host_arena_;
  std::optional<Crossing> crossing_;        // where it computes layers
  std::optional<DistantExperts> experts_;   // where it computes experts of the main device's layers
  std::unique_ptr<KvOffloader> offloader_;  // last: its thread writes to KV memory
};

}  // namespace quire
