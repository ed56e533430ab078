// From what the user asked for and what the model is, to the numbers that an engine runs with.
// Reads headers only: nothing is loaded yet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "core/kv_group.h"
#include "engine/api.h"
#include "engine/compute_device.h"
#include "engine/draft_bundle.h"
#include "exec/model_runner.h"
#include "load/model_bundle.h"
#include "plan/memory_plan.h"
#include "quant/load_quantization.h"

namespace quire {

// Of a model that drafts. Of heads it is limits and types alone that count.
struct DraftSizes {
  ModelRunnerConfig runner;
  std::vector<KvGroup> kv_groups;
};

struct EngineSizes {
  std::int32_t max_model_len = 0;
  LoadQuantization quantization = LoadQuantization::kNone;
  ModelRunnerConfig runner;
  std::vector<KvGroup> kv_groups;
  std::optional<DraftSizes> draft;
  MemoryPlan plan;
};

// `draft`: what drafts, where it computes. Its cache has room for as many tokens as the
// model's. `table_bytes`: what opening the model has put in memory (tokenizer, configuration).
// `device`: what computes, whose memory the plan is of.
// kConfig for settings that contradict each other, kInvalidArgument for one out of range,
// kResourceExhausted with numbers and a remedy where the memory does not suffice.
Result<EngineSizes> size_engine(const EngineArgs& args, const ModelBundle& bundle,
                                const std::optional<DraftBundle>& draft, std::uint64_t table_bytes,
                                const ComputeDevice& device);

// The KV cache's type that `args` ask for, as size_engine() chooses it, and its errors.
Result<DType> kv_cache_dtype(const EngineArgs& args, const ModelBundle& bundle);

// The KV groups of a model whose sequences have up to `max_model_len` tokens, for the scheduler.
std::vector<KvGroup> kv_groups(const DecoderSpec& spec, std::int64_t max_model_len,
                               const KvBlockFormat& format);

// Bytes of one KV block of all layers in a cache of that type.
std::uint64_t kv_block_bytes(const ModelBundle& bundle, DType dtype, std::int32_t block_size);

// Bytes that the program's heap has now.
std::uint64_t heap_bytes();

}  // namespace quire
