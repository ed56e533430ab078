// What a model runner has on one of the devices that compute its model: a stream of ops, the KV
// memory of the layers that are computed there, memory for a step's activations, and what is staged
// of the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "exec/kv_offloader.h"
#include "exec/kv_storage.h"
#include "exec/model_runner_config.h"
#include "kernels/device.h"
#include "models/kv_groups.h"
#include "models/spec.h"
#include "nn/forward_context.h"
#include "tensor/arena.h"

namespace quire {

// The layers [begin, end) of a model.
struct LayerSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class DevicePart {
 public:
  // Of a device that computes `layers` in steps within `limits`, with `activation_bytes` for
  // take(). Borrows the device. kResourceExhausted.
  static Result<std::unique_ptr<DevicePart>> create(Device& device, const DecoderSpec& spec,
                                                    const ModelRunnerConfig& config,
                                                    const LayerSpan& layers,
                                                    const StreamLimits& limits,
                                                    std::uint64_t activation_bytes);

  // Bytes of a page of the KV cache that such a device has. Where layers of both devices share a
  // slot (KvPaging), both have it.
  static std::uint64_t kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                     const LayerSpan& layers);
  static AttentionHeads attention_heads(const LayerSpec& layer);

  OpStream& ops() const { return *ops_; }
  const KvStorage& kv() const { return kv_; }
  KvOffloader::Part kv_part() const {
    return {.device = &device_, .storage = &kv_, .ops = ops_.get()};
  }

  // The next bytes of its memory of activations.
  template <typename T>
  T* take(std::uint64_t bytes) {
    return reinterpret_cast<T*>(std::exchange(next_, next_ + bytes));
  }

  // In a step, once blocks may be copied: copies them, and stages what its layers need of `batch`.
  void stage(std::span<const BlockCopy> copies, const InputBatch& batch);
  // Of the step, for its layers.
  ForwardContext context(Arena& arena) const;
  std::span<const std::unique_ptr<PlannedAttention>> attention_plans() const {
    return attention_plans_;
  }
  std::span<const LayerTables> page_tables() const { return page_tables_; }

  void prefault();

 private:
  DevicePart(Device& device, const DecoderSpec& spec, const ModelRunnerConfig& config,
             const KvPaging& paging, const LayerSpan& layers, KvStorage kv, Buffer memory,
             std::unique_ptr<OpStream> ops);
  void plan_heads(const DecoderSpec& spec, const ModelRunnerConfig& config, const KvPaging& paging);
  void stage_layer_tables(const InputBatch& batch);

  Device& device_;
  LayerSpan layers_;
  std::vector<KvPaging::Place> places_;  // of each layer of the model
  KvStorage kv_;
  Buffer memory_;
  std::byte* next_;
  std::unique_ptr<OpStream> ops_;
  std::vector<std::unique_ptr<PlannedAttention>> attention_plans_;  // of each kind of heads
  // Of each layer of the model, empty for those of others.
  std::vector<std::byte*> kv_layers_;
  std::vector<LayerHeads> layer_heads_;
  // Of each page of a block and of each layer, where they are not the same of all; staged.
  std::vector<LayerTables> page_tables_;
  std::vector<const BlockId* const*> host_tables_;  // of pages that attention reads
  std::vector<LayerTables> layer_tables_;
  StepTokens tokens_;  // of the step, staged
};

}  // namespace quire
