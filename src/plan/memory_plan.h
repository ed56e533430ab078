// What an engine will need of this machine's memory, from file headers and flags, before anything
// is loaded. Printed at start and by `quire inspect`; what does not fit is refused here, with the
// numbers and the flag to change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "plan/memory_limits.h"

namespace quire {

// Layers that keep the same tokens' keys and values, or a state. A block of the group has so many
// pages of the pool that all groups share.
struct PlannedKvGroup {
  std::int32_t window = 0;        // tokens that are kept; 0: all
  std::uint64_t state_bytes = 0;  // of a sequence's state, in all layers; 0: they keep none
  std::int64_t num_layers = 0;
  std::int64_t pages_per_block = 1;
};

// What the host's memory holds of a model that a GPU computes with the host's help (LayerSplit).
struct HostPart {
  std::int64_t num_layers = 0;         // the first ones
  std::int64_t num_expert_layers = 0;  // others, of which the experts alone are there
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;    // of layers that are computed there
  std::uint64_t activation_bytes = 0;  // also what goes from one memory to the other
  std::uint64_t workspace_bytes = 0;

  std::uint64_t total() const {
    return weight_bytes + kv_cache_bytes + activation_bytes + workspace_bytes;
  }
  bool empty() const { return total() == 0; }
};

// Everything that the plan is made from. Sizes that belong to the executor come from its own static
// functions; the rest is computed here.
struct MemoryPlanInput {
  std::uint64_t weight_bytes = 0;      // planned_weight_bytes()
  std::uint64_t kv_page_bytes = 0;     // one page of the KV cache
  std::uint64_t activation_bytes = 0;  // of a step: hidden states, logits, sampling, batch arrays
  std::uint64_t workspace_bytes = 0;   // scratch of the kernels
  // What guesses tokens: where it looks them up, or a model without its cache; and of the cache,
  // for each page of the KV cache.
  std::uint64_t draft_bytes = 0;
  std::uint64_t draft_page_bytes = 0;
  // The tier below the KV cache: buffers and bookkeeping; its blocks, and their size on disk.
  std::uint64_t offload_bytes = 0;
  std::uint64_t offload_disk_bytes = 0;
  std::int64_t offload_blocks = 0;
  std::uint64_t table_bytes = 0;        // tokenizer, configuration: already in memory
  std::uint64_t host_bytes = 0;         // of the host's memory, where the plan is of a GPU's
  HostPart host_part;                   // but its KV cache, of which one page has
  std::uint64_t host_page_bytes = 0;    // so many bytes
  MemoryLimits host_limits;             // where there is such a part
  std::uint64_t block_table_bytes = 0;  // bookkeeping of one page

  // What one sequence of max_model_len tokens holds at most of the pool while it computes its
  // prompt, and while it gets its output; what max_num_seqs of them hold at most.
  std::vector<PlannedKvGroup> kv_groups;
  std::int64_t prompt_pages = 0;
  std::int64_t sequence_pages = 0;
  std::int64_t all_pages = 0;

  double max_pinned_share = 0;  // --max-pinned-share, in [0, 1)
  std::int32_t block_size = 0;
  std::int32_t max_model_len = 0;
  std::optional<std::uint64_t> kv_cache_memory_bytes;  // --kv-cache-memory-bytes
  double gpu_memory_utilization = 0.9;                 // --gpu-memory-utilization, in (0, 1]
};

struct MemoryPlan {
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t draft_bytes = 0;
  std::uint64_t offload_bytes = 0;
  std::uint64_t offload_disk_bytes = 0;  // not of the memory
  std::int64_t offload_blocks = 0;
  std::uint64_t table_bytes = 0;
  // Not of the memory: the host's, where this is a GPU's; and what of it is a part of the model's.
  std::uint64_t host_bytes = 0;
  HostPart host_part;
  std::uint64_t host_budget = 0;       // for these, where there is such a part
  std::int64_t num_blocks = 0;         // pages, where a block has several
  std::int64_t max_pinned_blocks = 0;  // of these: max_pinned_pages()
  std::vector<PlannedKvGroup> kv_groups;
  std::int64_t sequence_pages = 0;  // of a sequence of max_model_len tokens
  std::int32_t block_size = 0;
  std::int32_t max_model_len = 0;
  std::uint64_t budget = 0;  // what the plan may use at most
  MemoryLimits limits;

  std::uint64_t total() const {
    return weight_bytes + kv_cache_bytes + activation_bytes + workspace_bytes + draft_bytes +
           offload_bytes + table_bytes;
  }
  std::int64_t pages_per_block() const;  // of all groups
  // Tokens that fit into the KV cache; where windows let go of some, in sequences of max_model_len.
  std::int64_t kv_tokens() const;
  // Sequences of max_model_len tokens that fit into the KV cache at once.
  double full_sequences() const;

  // A table for people, the same in one line, and for programs.
  std::string to_text() const;
  std::string to_line() const;
  json::object to_json() const;
};

// Pages of a pool of `num_pages` in which prefixes may be pinned: this share of them, as far as a
// sequence of max_model_len tokens still fits beside them, which holds at most `sequence_pages`.
std::int64_t max_pinned_pages(std::int64_t num_pages, std::int64_t sequence_pages, double share);

// The KV cache gets what --kv-cache-memory-bytes says, else what max_num_seqs sequences of
// max_model_len need, at most a quarter of the memory that the weights leave; of a GPU's, which
// nobody else needs, all of it. Errors:
// kResourceExhausted where everything together is over the budget, or the KV cache has no room for
// one sequence; kInvalidArgument for a utilization out of range.
Result<MemoryPlan> make_memory_plan(const MemoryPlanInput& input, const MemoryLimits& limits);

}  // namespace quire
