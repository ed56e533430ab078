// Everything a building block needs besides its weights: the step's flat arrays, the KV memory, the
// rotary table and scratch memory. Assembled by the model runner once a step. All pointers but that
// to kv_layers are into the memory of the device whose ops they go to: blocks compute with them and
// never look at what is there.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "kernels/state_runs.h"
#include "tensor/arena.h"

namespace quire {

class DistantExperts;

// The tokens of one step, sequences side by side, never padded.
struct StepTokens {
  std::int64_t num_tokens = 0;
  const TokenId* token_ids = nullptr;          // [num_tokens]
  const std::int32_t* positions = nullptr;     // [num_tokens]
  const std::int64_t* slot_mapping = nullptr;  // [num_tokens]: block_id * block_size + offset
  // Tokens whose keys and values are to lie in another place, too (a block of another path of
  // drafts): their rows, and where; fewer than num_tokens to a block of the path.
  std::int64_t num_repeated = 0;
  const std::int64_t* repeated_rows = nullptr;   // [num_repeated]
  const std::int64_t* repeated_slots = nullptr;  // [num_repeated]: as slot_mapping
};

// Where a layer's keys and values of the step lie, in a model whose layers keep different tokens.
struct LayerTables {
  const std::int64_t* slot_mapping = nullptr;    // as in StepTokens
  const BlockId* const* block_tables = nullptr;  // as in AttentionBatch
  const std::int64_t* repeated_slots = nullptr;  // as in StepTokens
  // Of a layer that keeps a state instead: [num_state_runs].
  const StateRun* state_runs = nullptr;
  std::int64_t num_state_runs = 0;
};

// How a layer's keys and values lie in blocks, and how the step's attention over them is split, in
// a model whose layers differ in heads. Of a layer that keeps a state the layout's stride alone.
struct LayerHeads {
  KvLayout layout;
  const PlannedAttention* plan = nullptr;
};

// Vectors of each token for each layer: of token t and layer l at data + t * stride + l * width.
struct PerLayerVectors {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

// What whoever drafts is given of inner layers: hidden states as they enter the layers `layers`, in
// ascending order, of which the last may be the number of layers: what the last one gives.
struct InnerStates {
  std::span<const std::int32_t> layers;
  float* data = nullptr;    // [layers][num_tokens][hidden_size]
  std::uint64_t bytes = 0;  // of those of one layer
};

struct ForwardContext {
  OpStream& ops;
  Arena& arena;
  StepTokens tokens;
  const PlannedAttention* attention_plan = nullptr;  // where layer_heads is null
  KvLayout kv_layout;
  std::byte* const* kv_layers = nullptr;  // [num_layers]: KV memory of each layer
  // [num_layers]; null: those of the step and of the plan's batch, for all layers.
  const LayerTables* layer_tables = nullptr;
  const LayerHeads* layer_heads = nullptr;  // [num_layers]; null: those of the step, for all layers
  PerLayerVectors per_layer_inputs = {};    // where the model has them, set by its forward()
  // [num_streams][num_tokens][hidden_size] where tokens have streams (nn/altup_block.h), set by the
  // model's forward().
  float* streams = nullptr;
  InnerStates inner_states = {};
  // Of layers that draft for another model: its states, [num_tokens][state_size], and the numbers
  // 0, num_tokens, 1, num_tokens + 1, ...: [2 num_tokens].
  const float* states = nullptr;
  std::int64_t state_size = 0;
  const std::int64_t* pairs = nullptr;
  // What a layer reads in place of what it gets (nn/eagle3_input.h), [num_tokens][2 hidden_size];
  // set by the model's forward().
  const float* joined = nullptr;
  ActivationMode activation_mode = ActivationMode::kFloat32;
  DistantExperts* distant_experts = nullptr;  // where a layer's experts lie with another device

  KvLayout layout_of(int layer) const {
    return layer_heads == nullptr ? kv_layout : layer_heads[layer].layout;
  }
  const PlannedAttention& plan_of(int layer) const {
    return layer_heads == nullptr ? *attention_plan : *layer_heads[layer].plan;
  }

  // The states of a layer that keeps one.
  LayerStates states_of(int layer) const {
    return {.data = kv_layers[layer],
            .stride = layout_of(layer).stride,
            .runs = layer_tables[layer].state_runs,
            .num_runs = layer_tables[layer].num_state_runs};
  }

  // For products at the end of a chain (the MLP's last one, the logits), where one int8 rounding
  // costs little accuracy and less arithmetic (docs/performance.md has the measurement).
  ActivationMode last_product_mode() const {
    return activation_mode == ActivationMode::kInt16 ? ActivationMode::kInt8 : activation_mode;
  }
};

}  // namespace quire
