#include "engine/engine_sizing.h"

#include <algorithm>
#include <malloc.h>
#include <string>

#include <fmt/format.h>

#include "core/kv_cache_manager.h"
#include "core/kv_tier.h"
#include "draft/drafter.h"
#include "engine/engine_args.h"
#include "engine/layer_split.h"
#include "engine/medusa_drafter.h"
#include "engine/output_processor.h"
#include "engine/state_drafter.h"
#include "exec/kv_offloader.h"
#include "models/decoder_model.h"
#include "models/kv_groups.h"
#include "plan/weight_plan.h"
#include "tensor/thread_pool.h"
#include "tier/block_file.h"

namespace quire {
namespace {

Status resolve_types(const EngineArgs& args, const WeightSource& weights,
                     LoadQuantization quantization, ModelRunnerConfig& runner) {
  // What is quantized at load computes as a checkpoint that came quantized.
  const bool float32_checkpoint =
      quantization == LoadQuantization::kNone &&
      std::all_of(weights.tensors().begin(), weights.tensors().end(),
                  [](const TensorInfo& tensor) { return tensor.encoding == Encoding::kF32; });
  QUIRE_ASSIGN_OR_RETURN(const auto asked, parse_activation_dtype(args.dtype));
  const bool float32 = asked.value_or(float32_checkpoint);
  runner.activation_mode = float32 ? ActivationMode::kFloat32 : ActivationMode::kInt16;
  QUIRE_ASSIGN_OR_RETURN(runner.kv_cache_dtype, parse_kv_cache_dtype(args.kv_cache_dtype, float32));
  return {};
}

Result<std::int32_t> resolve_max_model_len(const EngineArgs& args, const DecoderSpec& spec) {
  const auto trained = static_cast<std::int32_t>(spec.max_position_embeddings);
  if (!args.max_model_len) return trained;
  if (*args.max_model_len < 1 || *args.max_model_len > trained) {
    return Status::config(fmt::format("--max-model-len {}: the model was trained for sequences of "
                                      "up to {} tokens",
                                      *args.max_model_len, trained),
                          fmt::format("use 1 to {}", trained));
  }
  return *args.max_model_len;
}

// Layers of the device whose experts the host has.
std::int64_t distant_expert_layers(const DecoderSpec& spec, const LayerSplit& split) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    const bool mixture = spec.layers[static_cast<std::size_t>(i)].moe() != nullptr;
    if (mixture && split.distant_experts(i)) ++count;
  }
  return count;
}

// Rows whose logits a step with drafts computes at once: for a few sequences all of them, so that
// the output matrix is read once; for more sequences, as many as fit.
std::int64_t drafted_rows(const EngineArgs& args) {
  constexpr std::int64_t kMostRows = 64;
  const std::int64_t rows =
      std::int64_t{args.max_num_seqs} * (1 + args.speculation->num_speculative_tokens);
  return std::min({rows, kMostRows, std::int64_t{args.max_num_batched_tokens}});
}

// What sequences need of the pool: of those that compute prompts, all tokens of the steps in flight
// may be of one.
void size_kv_groups(const EngineArgs& args, const KvPaging& paging, const EngineSizes& sizes,
                    MemoryPlanInput& input) {
  for (const KvGroupSpec& group : paging.groups) {
    input.kv_groups.push_back({.window = group.window,
                               .state_bytes = group.state_bytes,
                               .num_layers = std::ssize(group.layers),
                               .pages_per_block = group.pages});
  }
  const std::int64_t in_flight =
      std::int64_t{args.max_steps_in_flight} * args.max_num_batched_tokens;
  input.prompt_pages = max_pages(sizes.kv_groups, sizes.max_model_len, in_flight, args.block_size);
  input.sequence_pages = max_pages(sizes.kv_groups, sizes.max_model_len, 1, args.block_size);
  input.all_pages = std::max(
      input.prompt_pages, max_pages_of_all(sizes.kv_groups, args.max_num_seqs, sizes.max_model_len,
                                           in_flight, args.block_size));
}

// Wrong guesses are undone, which a state cannot be.
Status check_takes_back(std::span<const KvGroup> groups, std::string_view who) {
  if (!keeps_states(groups)) return {};
  return Status::config(
      fmt::format("--speculative-config: {} has layers that keep a state of fixed size, from which "
                  "wrong guesses cannot be taken back",
                  who),
      "leave the flag out, or use a model whose layers all have attention");
}

Status size_medusa(const MedusaSpec& spec, const WeightSource& weights, const ComputeDevice& device,
                   int threads, const ModelRunnerConfig& runner, MemoryPlanInput& input) {
  const StreamMemory stream =
      device.stream_memory(MedusaRunner::stream_limits(spec, runner.max_num_seqs), threads);
  input.draft_bytes =
      spec.weight_bytes(weights) + MedusaRunner::bytes(spec, runner.max_num_seqs, stream) +
      MedusaDrafter::bytes(spec.hidden_size, runner.max_num_seqs, runner.max_model_len);
  return {};
}

// Of the model that drafts: its runner, and what it needs besides the cache; that, for each page of
// the model's.
Status size_draft_model(const EngineArgs& args, const DraftBundle& draft,
                        const ComputeDevice& device, int threads, EngineSizes& sizes,
                        MemoryPlanInput& input) {
  DraftSizes& own = sizes.draft.emplace();
  own.runner = sizes.runner;
  own.runner.split = {};
  own.runner.max_sampled_rows = 0;
  own.runner.max_draft_paths = 1;
  own.runner.inner_layers.clear();
  own.runner.token_map = draft.token_map;
  own.runner.states = draft.spec.state_input.present ? StateRows::kLast : StateRows::kNone;
  own.runner.max_steps_in_flight = 1;
  QUIRE_RETURN_IF_ERROR(resolve_types(args, *draft.weights, LoadQuantization::kNone, own.runner));
  if (draft.medusa) {
    return size_medusa(*draft.medusa, *draft.weights, device, threads, own.runner, input);
  }
  own.runner.max_model_len =
      std::min<std::int64_t>(sizes.max_model_len, draft.spec.max_position_embeddings);
  own.kv_groups = kv_groups(draft.spec, own.runner.max_model_len, own.runner.kv_format());
  QUIRE_RETURN_IF_ERROR(check_takes_back(own.kv_groups, "the model that drafts"));
  const RunnerMemory memory = ModelRunner::memory_of(
      draft.spec, own.runner,
      device.stream_memory(ModelRunner::stream_limits(draft.spec, own.runner), threads));
  input.draft_bytes =
      planned_weight_bytes(draft.spec, *draft.weights, own.runner.max_model_len).main +
      memory.activations() + memory.workspace;
  if (draft.spec.state_input.present) {
    input.draft_bytes += StateDrafter::bytes(draft.spec.state_size(), args.max_num_seqs,
                                             sizes.max_model_len, args.max_num_batched_tokens);
  }
  const auto pages = static_cast<std::uint64_t>(pages_per_block(own.kv_groups));
  const std::uint64_t block_bytes =
      ModelRunner::kv_block_bytes(draft.spec, own.runner) +
      pages * KvCacheManager::bytes_per_page(args.block_size, own.kv_groups,
                                             /*enable_prefix_caching=*/false);
  const auto shared_by = static_cast<std::uint64_t>(pages_per_block(sizes.kv_groups));
  input.draft_page_bytes = (block_bytes + shared_by - 1) / shared_by;
  return {};
}

// The tier below the KV cache. Blocks of groups that let go of tokens, and states, have no use for
// one another's.
Status size_offloading(const EngineArgs& args, const DecoderSpec& spec, const EngineSizes& sizes,
                       MemoryPlanInput& input) {
  if (args.kv_offload_path.empty()) return {};
  if (sizes.kv_groups != std::vector{KvGroup{}}) {
    return Status::unimplemented(
        fmt::format("--kv-offload-path: {} has layers that keep a window of tokens or a state, and "
                    "only blocks of all tokens are offloaded",
                    spec.architecture),
        "leave --kv-offload-path out for this model");
  }
  const double bytes = args.kv_offloading_size * (std::uint64_t{1} << 30);
  const std::uint64_t page_bytes = input.kv_page_bytes + input.host_page_bytes;
  const std::uint64_t block_bytes = BlockFile::disk_bytes(page_bytes, 1);
  input.offload_blocks = static_cast<std::int64_t>(bytes / static_cast<double>(block_bytes));
  if (input.offload_blocks < 1) {
    return Status::config(fmt::format("--kv-offloading-size {}: one block takes {} bytes",
                                      args.kv_offloading_size, block_bytes),
                          "give it more");
  }
  input.offload_disk_bytes = BlockFile::disk_bytes(page_bytes, input.offload_blocks);
  input.offload_bytes = KvOffloader::buffer_bytes_of(page_bytes) +
                        static_cast<std::uint64_t>(input.offload_blocks) *
                            (BlockFile::kMemoryPerBlock + KvTier::kBytesPerBlock);
  return {};
}

}  // namespace

std::vector<KvGroup> kv_groups(const DecoderSpec& spec, std::int64_t max_model_len,
                               const KvBlockFormat& format) {
  const KvPaging paging = kv_paging(spec, max_model_len, format);
  std::vector<KvGroup> groups;
  for (const KvGroupSpec& group : paging.groups) {
    const bool state = group.state_bytes != 0;
    groups.push_back({.window = state ? KvGroup::kStateWindow : group.window,
                      .pages_per_block = group.pages,
                      .state = state});
  }
  return groups;
}

Result<EngineSizes> size_engine(const EngineArgs& args, const ModelBundle& bundle,
                                const std::optional<DraftBundle>& draft, std::uint64_t table_bytes,
                                const ComputeDevice& device) {
  QUIRE_RETURN_IF_ERROR(check_engine_args(args));
  const DecoderSpec& spec = bundle.spec;
  EngineSizes sizes;
  ModelRunnerConfig& runner = sizes.runner;
  QUIRE_ASSIGN_OR_RETURN(sizes.quantization, parse_load_quantization(args.quantization));
  QUIRE_RETURN_IF_ERROR(check_quantization(spec, *bundle.weights, sizes.quantization));
  QUIRE_RETURN_IF_ERROR(resolve_types(args, *bundle.weights, sizes.quantization, runner));
  QUIRE_ASSIGN_OR_RETURN(sizes.max_model_len, resolve_max_model_len(args, spec));
  runner.block_size = args.block_size;
  runner.max_num_batched_tokens = args.max_num_batched_tokens;
  runner.max_num_seqs = args.max_num_seqs;
  if (args.speculation) {
    runner.max_sampled_rows = drafted_rows(args);
    runner.max_draft_paths = args.speculation->max_draft_paths();
    if (args.speculation->reads_states()) runner.states = StateRows::kFinal;
    if (draft && !draft->inner_layers.empty()) {
      runner.states = StateRows::kInner;
      runner.inner_layers = draft->inner_layers;
    }
  }
  QUIRE_ASSIGN_OR_RETURN(runner.split, layer_split(args, spec, device));
  runner.max_steps_in_flight = args.max_steps_in_flight;
  runner.max_model_len = sizes.max_model_len;
  const auto eos_ids = bundle.text.tokenizer->eos_ids();
  runner.eos_token_ids.assign(eos_ids.begin(), eos_ids.end());
  sizes.kv_groups = kv_groups(spec, sizes.max_model_len, runner.kv_format());
  if (args.speculation) QUIRE_RETURN_IF_ERROR(check_takes_back(sizes.kv_groups, "the model"));
  const int threads = args.threads > 0 ? args.threads : default_num_threads();

  MemoryPlanInput input;
  const SplitBytes weights = planned_weight_bytes(spec, *bundle.weights, sizes.max_model_len,
                                                  sizes.quantization, runner.split);
  const SplitBytes page = ModelRunner::kv_page_bytes(spec, runner);
  input.weight_bytes = weights.main;
  input.kv_page_bytes = page.main;
  input.host_page_bytes = page.host;
  StreamMemory host_stream;
  if (!runner.split.empty()) {
    host_stream = cpu_stream_memory(ModelRunner::host_stream_limits(spec, runner), threads);
    input.host_limits = *device.host;
  }
  const RunnerMemory memory = ModelRunner::memory_of(
      spec, runner, device.stream_memory(ModelRunner::stream_limits(spec, runner), threads),
      host_stream);
  input.host_part = {.num_layers = runner.split.host_layers,
                     .num_expert_layers = distant_expert_layers(spec, runner.split),
                     .weight_bytes = weights.host,
                     .activation_bytes = memory.of_host_part() + memory.host_transfers,
                     .workspace_bytes = memory.host_workspace};
  const StepResultLimits results = {.max_num_seqs = args.max_num_seqs,
                                    .max_num_batched_tokens = args.max_num_batched_tokens,
                                    .max_logprobs = args.max_logprobs,
                                    .hidden_size = spec.hidden_size};
  const std::uint64_t host_bytes = memory.on_host() + results.total_bytes();
  input.activation_bytes = memory.on_device();
  input.workspace_bytes = memory.workspace;
  if (draft) {
    QUIRE_RETURN_IF_ERROR(size_draft_model(args, *draft, device, threads, sizes, input));
  } else if (args.speculation) {
    input.draft_bytes = drafter_bytes(*args.speculation, args.max_num_seqs, sizes.max_model_len);
  }
  if (device.host) {
    input.host_bytes = host_bytes + table_bytes;
  } else {
    input.activation_bytes += host_bytes;
    input.table_bytes = table_bytes;
  }
  input.block_table_bytes = KvCacheManager::bytes_per_page(
      args.block_size, sizes.kv_groups, args.enable_prefix_caching, !args.kv_offload_path.empty());
  QUIRE_RETURN_IF_ERROR(size_offloading(args, spec, sizes, input));
  size_kv_groups(args, kv_paging(spec, sizes.max_model_len, runner.kv_format()), sizes, input);
  input.max_pinned_share = args.enable_prefix_caching ? args.max_pinned_share : 0;
  input.block_size = args.block_size;
  input.max_model_len = sizes.max_model_len;
  input.kv_cache_memory_bytes = args.kv_cache_memory_bytes;
  input.gpu_memory_utilization = args.gpu_memory_utilization;
  QUIRE_ASSIGN_OR_RETURN(sizes.plan, make_memory_plan(input, device.memory));
  runner.num_blocks = sizes.plan.num_blocks;
  if (sizes.draft && !sizes.draft->kv_groups.empty()) {
    sizes.draft->runner.num_blocks = sizes.plan.num_blocks / pages_per_block(sizes.kv_groups) *
                                     pages_per_block(sizes.draft->kv_groups);
  }
  return sizes;
}

Result<DType> kv_cache_dtype(const EngineArgs& args, const ModelBundle& bundle) {
  QUIRE_ASSIGN_OR_RETURN(const LoadQuantization quantization,
                         parse_load_quantization(args.quantization));
  ModelRunnerConfig runner;
  QUIRE_RETURN_IF_ERROR(resolve_types(args, *bundle.weights, quantization, runner));
  return runner.kv_cache_dtype;
}

std::uint64_t kv_block_bytes(const ModelBundle& bundle, DType dtype, std::int32_t block_size) {
  ModelRunnerConfig runner;
  runner.kv_cache_dtype = dtype;
  runner.block_size = block_size;
  return ModelRunner::kv_block_bytes(bundle.spec, runner);
}

std::uint64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace quire
