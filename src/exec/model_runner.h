// Runs steps on one model: applies a plan to the batch, computes hidden states and logits, samples.
// All memory is reserved at creation; a step allocates only its small results. Everything that a
// step computes with lies in the device's memory: what the host knows is staged, results are
// downloaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "exec/input_batch.h"
#include "exec/kv_offloader.h"
#include "exec/kv_storage.h"
#include "exec/pooler.h"
#include "exec/sampler.h"
#include "kernels/device.h"
#include "models/decoder_model.h"
#include "models/kv_groups.h"
#include "tensor/arena.h"

namespace quire {

// Which hidden states a step gives (ModelRunnerOutput::states), for whoever drafts from them.
enum class StateRows : std::uint8_t {
  kNone,
  kFinal,  // after the final norm
  kLast,   // the last layer's, before it
  kInner   // those that enter ModelRunnerConfig::inner_layers, side by side
};

struct ModelRunnerConfig {
  std::int32_t block_size = 16;
  std::int64_t num_blocks = 0;  // of the KV cache: pages (KvPaging)
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t max_num_seqs = 0;
  // Rows whose logits are computed at once, where drafts make them more than sequences.
  std::int64_t max_sampled_rows = 0;
  std::int64_t max_model_len = 0;
  std::int32_t max_draft_paths = 1;  // SchedulerConfig's
  std::int32_t max_steps_in_flight = 1;
  std::vector<TokenId> eos_token_ids;  // that min_tokens bans
  DType kv_cache_dtype = DType::kBF16;
  ActivationMode activation_mode = ActivationMode::kInt16;
  StateRows states = StateRows::kNone;
  std::vector<std::int32_t> inner_layers = {};  // InnerStates::layers
  // The token of each id that is sampled, where the vocabulary is reduced; empty: the same.
  std::vector<TokenId> token_map = {};

  KvBlockFormat kv_format() const { return {block_size, kv_cache_dtype}; }
  std::int64_t rows_at_once() const { return std::max(max_num_seqs, max_sampled_rows); }
  std::int64_t num_inner() const { return static_cast<std::int64_t>(inner_layers.size()); }
};

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
  std::uint64_t states = 0;  // those that results have
  std::uint64_t batch = 0;   // the requests' tokens and block tables, the step's arrays

  // Of the device that computes, and of the host, which may be the same.
  std::uint64_t on_device() const { return hidden + inner + normed + logits + best + arena; }
  std::uint64_t on_host() const { return pooled + sampler + states + batch; }
  std::uint64_t activations() const { return on_device() + on_host(); }
};

class ModelRunner {
 public:
  // Borrows the model and the device that it was loaded to for its life. kResourceExhausted.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model, Device& device,
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
  void record_spans(SpanRecorder& spans, SpanRecorder& on_device) {
    ops_->record_spans(spans, on_device);
  }

  std::uint64_t kv_cache_bytes() const { return kv_.size_bytes(); }

  // Touches all memory, so that no step pays for a first use.
  void prefault();

  // The model's weights lie elsewhere from now on; no step is in flight.
  void model_changed() { ++model_version_; }

  // Bytes of one block of the KV cache, in all layers; and of one page.
  static std::uint64_t kv_block_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config);
  static std::uint64_t kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config);

  // What its steps are at most.
  static StreamLimits stream_limits(const DecoderSpec& spec, const ModelRunnerConfig& config);
  // For a model and its limits; `stream`: what a stream for stream_limits() needs.
  static RunnerMemory memory_of(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                const StreamMemory& stream);

 private:
  Status prepare(const SchedulerOutput& step, ModelRunnerOutput& result);
  void plan_heads(std::uint64_t slot_bytes);
  void stage_layer_tables();
  Status stage_states();
  ForwardContext context();
  // All that a step's layers compute, and the logits of `rows`, in one piece.
  void compute(std::span<const InputBatch::SampleRow> rows);
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
    return ops_->stage(std::span<const std::int64_t>(row_indices_));
  }

  ModelRunner(const Model& model, Device& device, const ModelRunnerConfig& config,
              const KvPaging& paging, KvStorage kv, Buffer memory, std::unique_ptr<OpStream> ops);

  const Model& model_;
  Device& device_;
  ModelRunnerConfig config_;
  std::vector<KvPaging::Place> places_;  // of each layer
  KvStorage kv_;
  std::vector<std::byte*> kv_layers_;  // of each layer
  // Of each page of a block and of each layer, where they are not the same of all; staged.
  std::vector<LayerTables> page_tables_;
  std::vector<const BlockId* const*> host_tables_;  // of pages that attention reads
  std::vector<LayerTables> layer_tables_;
  Buffer memory_;
  InputBatch batch_;
  std::unique_ptr<OpStream> ops_;
  std::vector<std::unique_ptr<PlannedAttention>> attention_plans_;  // of each kind of heads
  std::vector<LayerHeads> layer_heads_;                             // of each layer
  Sampler sampler_;
  Pooler pooler_;
  StepTokens tokens_;  // of the step, staged
  std::span<const float> given_states_;
  const float* states_ = nullptr;  // the same, staged
  std::int64_t state_size_ = 0;
  std::vector<std::int64_t> pairs_;  // ForwardContext::pairs
  const std::int64_t* staged_pairs_ = nullptr;
  std::vector<std::int64_t> row_indices_;  // whose logits or final states are computed
  std::int64_t model_version_ = 0;
  PieceKey piece_key_;

  // Parts of `memory_`.
  float* hidden_ = nullptr;  // [max_num_batched_tokens][hidden_size]
  float* inner_ = nullptr;   // [inner_layers][max_num_batched_tokens][hidden_size]
  float* normed_ = nullptr;  // [rows_at_once][hidden_size], at least as many as inner_layers
  float* logits_ = nullptr;  // [rows_at_once][vocab_size]
  RowBest* best_ = nullptr;  // [rows_at_once]
  Arena arena_;
  std::unique_ptr<KvOffloader> offloader_;  // last: its thread writes to kv_
};

}  // namespace quire
