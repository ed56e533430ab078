#include "apps/simulated_engine.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "engine/assembly.h"
#include "engine/engine_sizing.h"
#include "engine/model_bundle.h"
#include "sim/paced_executor.h"

namespace quire {
namespace {

constexpr std::int64_t kMaxPoolTokens = 1'000'000;

}  // namespace

Result<std::unique_ptr<Engine>> create_simulated_engine(
    const SimulatedEngineArgs& args, std::function<void(const StepRecord&)> stepped) {
  QUIRE_ASSIGN_OR_RETURN(ModelBundle bundle, open_model(args.engine.model, args.engine.tokenizer));
  QUIRE_RETURN_IF_ERROR(replace_chat_template(bundle.text, args.engine.chat_template));
  const auto max_model_len = static_cast<std::int32_t>(
      args.engine.max_model_len.value_or(bundle.spec.max_position_embeddings));
  const std::int64_t pool_tokens =
      std::min(kMaxPoolTokens, std::int64_t{max_model_len} * args.engine.max_num_seqs);
  const std::vector<KvGroup> groups = kv_groups(bundle.spec, max_model_len);
  const std::int64_t block_pages = pages_per_block(groups);
  std::int64_t num_blocks = block_pages * ceil_div(pool_tokens, args.engine.block_size);
  QUIRE_ASSIGN_OR_RETURN(const DType kv_dtype, kv_cache_dtype(args.engine, bundle));
  if (args.engine.kv_cache_memory_bytes) {
    const std::uint64_t page_bytes = kv_block_bytes(bundle, kv_dtype, args.engine.block_size) /
                                     static_cast<std::uint64_t>(block_pages);
    num_blocks = static_cast<std::int64_t>(*args.engine.kv_cache_memory_bytes / page_bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(
      const SchedulerConfig config,
      scheduler_config(args.engine, max_model_len, static_cast<std::int32_t>(num_blocks), groups,
                       *bundle.text.tokenizer));
  QUIRE_ASSIGN_OR_RETURN(std::optional<StepPacer> pacer, step_pacer(args.engine));
  QUIRE_ASSIGN_OR_RETURN(auto event_log, open_event_log(args.engine));
  EngineInfo info = {.model_name = bundle.name,
                     .architecture = bundle.spec.architecture,
                     .isa_level = "simulated",
                     .activation = "none",
                     .kv_cache_dtype = std::string(dtype_name(kv_dtype)),
                     .quantization = "none",
                     .threads = 0,
                     .vocab_size = bundle.spec.vocab_size,
                     .hidden_size = bundle.spec.hidden_size,
                     .max_model_len = max_model_len,
                     .block_size = args.engine.block_size,
                     .num_blocks = config.num_blocks,
                     .max_num_seqs = config.max_num_seqs,
                     .max_num_batched_tokens = config.max_num_batched_tokens,
                     .continuous_batching = config.batching == Batching::kContinuous,
                     .weight_bytes = 0,
                     .kv_cache_bytes = 0,
                     .kv_bytes_per_token = 0,
                     .model = model_facts(bundle),
                     .plan = {}};
  std::unique_ptr<Executor> executor = std::make_unique<PacedExecutor>(SimulatedExecutorConfig{
      .block_size = args.engine.block_size,
      .num_blocks = config.num_blocks,
      .vocab_size = static_cast<std::int32_t>(bundle.text.tokenizer->vocab_size()),
      .step_time = args.step_time,
      .token_time = args.token_time,
      .hidden_size = static_cast<std::int32_t>(bundle.spec.hidden_size),
      .kv_groups = groups});
  if (args.wrap) executor = args.wrap(std::move(executor));
  return assemble_engine({.text = std::move(bundle.text),
                          .info = std::move(info),
                          .scheduler = config,
                          .generation_defaults = std::move(bundle.generation_defaults),
                          .max_logprobs = args.engine.max_logprobs,
                          .seed = args.engine.seed,
                          .stepped = std::move(stepped),
                          .executor = std::move(executor),
                          .listener = std::move(event_log),
                          .pacer = pacer});
}

}  // namespace quire
