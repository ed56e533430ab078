// The parts of an engine that follow from its settings and the model's files.
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/assembly.h"
#include "engine/engine_args.h"
#include "engine/engine_sizing.h"
#include "engine/event_log/event_log.h"

namespace quire {
namespace {

// The scheduler's settings that follow from an engine's.
Result<SchedulerConfig> scheduler_config(const EngineArgs& args, std::int32_t max_model_len,
                                         std::int32_t num_blocks, std::vector<KvGroup> kv_groups,
                                         const Tokenizer& tokenizer) {
  SchedulerConfig config;
  config.max_num_seqs = args.max_num_seqs;
  config.max_num_batched_tokens = args.max_num_batched_tokens;
  config.max_model_len = max_model_len;
  config.block_size = args.block_size;
  config.num_blocks = num_blocks;
  config.kv_groups = std::move(kv_groups);
  config.max_queued = args.max_queued_requests;
  config.max_steps_in_flight = args.max_steps_in_flight;
  config.enable_chunked_prefill = args.enable_chunked_prefill;
  config.enable_prefix_caching = args.enable_prefix_caching;
  config.kv_tier = !args.kv_offload_path.empty();
  QUIRE_ASSIGN_OR_RETURN(config.policy, parse_policy(args.scheduling_policy));
  QUIRE_ASSIGN_OR_RETURN(config.batching, parse_batching(args.batching));
  config.max_batch_delay = Duration(static_cast<std::int64_t>(args.max_batch_delay_ms * 1e6));
  config.admission = args.admission;
  if (args.speculation) config.max_draft_paths = args.speculation->max_draft_paths();
  if (config.enable_prefix_caching) {
    const std::int64_t longest = max_pages(config.kv_groups, max_model_len,
                                           config.max_tokens_in_flight(), config.block_size);
    config.max_pinned_blocks =
        static_cast<std::int32_t>(max_pinned_pages(num_blocks, longest, args.max_pinned_share));
  }
  config.eos_token_ids.assign(tokenizer.eos_ids().begin(), tokenizer.eos_ids().end());
  QUIRE_RETURN_IF_ERROR(config.validate());
  return config;
}

// What measures steps, and limits their time to EngineArgs::max_step_ms.
StepPacer step_pacer(const EngineArgs& args) {
  if (!args.max_step_ms) return StepPacer(std::nullopt);
  return StepPacer(Duration(static_cast<std::int64_t>(*args.max_step_ms * 1e6)));
}

// The event log that EngineArgs ask for; null where they ask for none.
Result<std::unique_ptr<SchedulerListener>> open_event_log(const EngineArgs& args) {
  if (args.event_log.empty()) return std::unique_ptr<SchedulerListener>();
  EventLogOptions options;
  options.base = args.event_log;
  const std::filesystem::path folder = std::filesystem::path(args.event_log).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return Status::io_error(
        fmt::format("--event-log: cannot make {}: {}", folder.string(), error.message()),
        "give a path in a folder that can be written");
  }
  options.segment_bytes = args.event_log_segment_bytes;
  options.max_segments = args.event_log_segments;
  QUIRE_ASSIGN_OR_RETURN(auto log, EventLog::open(std::move(options)));
  return std::unique_ptr<SchedulerListener>(std::move(log));
}

}  // namespace

Result<EngineParts> engine_parts(const EngineArgs& args, ModelBundle& bundle,
                                 std::int32_t max_model_len, std::int32_t num_blocks,
                                 DType kv_cache_dtype) {
  QUIRE_RETURN_IF_ERROR(check_engine_args(args));
  EngineParts parts;
  QUIRE_ASSIGN_OR_RETURN(
      parts.scheduler,
      scheduler_config(args, max_model_len, num_blocks,
                       kv_groups(bundle.spec, max_model_len, {args.block_size, kv_cache_dtype}),
                       *bundle.text.tokenizer));
  parts.pacer = step_pacer(args);
  parts.speculation = args.speculation;
  QUIRE_ASSIGN_OR_RETURN(parts.listener, open_event_log(args));
  parts.info = {.model_name = bundle.name,
                .architecture = bundle.spec.architecture,
                .isa_level = {},
                .activation = {},
                .kv_cache_dtype = std::string(dtype_name(kv_cache_dtype)),
                .quantization = {},
                .vocab_size = bundle.spec.vocab_size,
                .hidden_size = bundle.spec.hidden_size,
                .max_model_len = max_model_len,
                .block_size = args.block_size,
                .num_blocks = num_blocks,
                .max_pinned_blocks = parts.scheduler.max_pinned_blocks,
                .max_num_seqs = args.max_num_seqs,
                .max_num_batched_tokens = args.max_num_batched_tokens,
                .continuous_batching = parts.scheduler.batching == Batching::kContinuous,
                .speculation = args.speculation,
                .model = model_facts(bundle),
                .embedding = bundle.embedding_defaults,
                .plan = {}};
  QUIRE_ASSIGN_OR_RETURN(const auto pooling, parse_pooling(args.pooling_type));
  if (pooling) {
    parts.info.embedding.pooling = *pooling;
    parts.info.embedding.source = "--pooling-type";
    parts.info.embedding.pooling_error = {};
  }
  parts.info.embedding.normalize =
      args.normalize_embeddings.value_or(parts.info.embedding.normalize);
  parts.text = std::move(bundle.text);
  if (args.generation_config == "auto") {
    parts.generation_defaults = std::move(bundle.generation_defaults);
  }
  parts.max_logprobs = args.max_logprobs;
  parts.jump_forward = args.jump_forward;
  parts.seed = args.seed;
  return parts;
}

}  // namespace quire
