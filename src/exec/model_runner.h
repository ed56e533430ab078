// Runs steps on one model in this process: applies a plan to the batch, computes hidden states and
// logits, samples. All memory is reserved at creation; a step allocates only its small results.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/executor.h"
#include "exec/input_batch.h"
#include "exec/kv_storage.h"
#include "exec/sampler.h"
#include "kernels/op_table.h"
#include "models/decoder_model.h"
#include "tensor/arena.h"

namespace quire {

struct ModelRunnerConfig {
  std::int32_t block_size = 16;
  std::int64_t num_blocks = 0;
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t max_num_seqs = 0;
  DType kv_cache_dtype = DType::kBF16;
  ActivationMode activation_mode = ActivationMode::kInt8;
};

class ModelRunner final : public Executor {
 public:
  // Borrows model, pool and table for its life.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model, ThreadPool& pool,
                                                     const OpTable& table,
                                                     const ModelRunnerConfig& config);

  Status execute(const SchedulerOutput& step, ModelRunnerOutput& result) override;

  // Logits of the last executed step's sampled rows: [sampled][vocab_size]. For tests and tools.
  const float* last_logits() const { return logits_; }

  std::uint64_t kv_cache_bytes() const { return kv_.size_bytes(); }
  std::uint64_t activation_bytes() const { return memory_.size(); }

  // Bytes of one block of the KV cache, in all layers.
  static std::uint64_t kv_block_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config);

  // Bytes of activations and workspace for a model and its limits.
  static std::uint64_t activation_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                        int num_threads);

 private:
  ModelRunner(const Model& model, ThreadPool& pool, const OpTable& table,
              const ModelRunnerConfig& config, KvStorage kv, Buffer memory);

  const Model& model_;
  ModelRunnerConfig config_;
  KvStorage kv_;
  Buffer memory_;
  InputBatch batch_;
  AttentionPlan attention_plan_;
  Sampler sampler_;
  std::vector<std::int64_t> sample_row_indices_;

  // Parts of `memory_`.
  float* hidden_ = nullptr;  // [max_num_batched_tokens][hidden_size]
  float* normed_ = nullptr;  // [max_num_seqs][hidden_size]
  float* logits_ = nullptr;  // [max_num_seqs][vocab_size]
  OpContext ops_;
  Arena arena_;
};

}  // namespace quire
