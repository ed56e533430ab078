// What a model runner is made for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kernels/op_args.h"
#include "models/kv_groups.h"
#include "models/spec.h"
#include "tensor/dtype.h"

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
  LayerSplit split = {};  // the host's part; of a whole model none
  StateRows states = StateRows::kNone;
  std::vector<std::int32_t> inner_layers = {};  // InnerStates::layers
  // The token of each id that is sampled, where the vocabulary is reduced; empty: the same.
  std::vector<TokenId> token_map = {};

  KvBlockFormat kv_format() const { return {block_size, kv_cache_dtype}; }
  std::int64_t rows_at_once() const { return std::max(max_num_seqs, max_sampled_rows); }
  std::int64_t num_inner() const { return static_cast<std::int64_t>(inner_layers.size()); }
};

}  // namespace quire
