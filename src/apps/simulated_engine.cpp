#include "apps/simulated_engine.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "engine/assembly.h"
#include "engine/engine_sizing.h"
#include "load/model_bundle.h"
#include "sim/paced_executor.h"

namespace quire {
namespace {

constexpr std::int64_t kMaxPoolTokens = 1'000'000;

}  // namespace

Result<std::unique_ptr<Engine>> create_simulated_engine(
    const SimulatedEngineArgs& args, std::function<void(const StepRecord&)> stepped) {
  if (!args.engine.kv_offload_path.empty()) {
    return Status::config("--kv-offload-path: a simulated engine has no keys and values to keep",
                          "leave it out");
  }
  QUIRE_ASSIGN_OR_RETURN(ModelBundle bundle, open_model(args.engine.model, args.engine.tokenizer));
  QUIRE_RETURN_IF_ERROR(replace_chat_template(bundle.text, args.engine.chat_template));
  const auto max_model_len = static_cast<std::int32_t>(
      args.engine.max_model_len.value_or(bundle.spec.max_position_embeddings));
  const std::int64_t pool_tokens =
      std::min(kMaxPoolTokens, std::int64_t{max_model_len} * args.engine.max_num_seqs);
  QUIRE_ASSIGN_OR_RETURN(const DType kv_dtype, kv_cache_dtype(args.engine, bundle));
  const std::vector<KvGroup> groups =
      kv_groups(bundle.spec, max_model_len, {args.engine.block_size, kv_dtype});
  const std::int64_t block_pages = pages_per_block(groups);
  std::int64_t num_blocks = block_pages * ceil_div(pool_tokens, args.engine.block_size);
  if (args.engine.kv_cache_memory_bytes) {
    const std::uint64_t page_bytes = kv_block_bytes(bundle, kv_dtype, args.engine.block_size) /
                                     static_cast<std::uint64_t>(block_pages);
    num_blocks = static_cast<std::int64_t>(*args.engine.kv_cache_memory_bytes / page_bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(EngineParts parts,
                         engine_parts(args.engine, bundle, max_model_len,
                                      static_cast<std::int32_t>(num_blocks), kv_dtype));
  parts.info.isa_level = "simulated";
  parts.info.activation = "none";
  parts.info.quantization = "none";
  std::unique_ptr<Executor> executor = std::make_unique<PacedExecutor>(SimulatedExecutorConfig{
      .block_size = args.engine.block_size,
      .num_blocks = static_cast<std::int32_t>(num_blocks),
      .vocab_size = static_cast<std::int32_t>(parts.text.tokenizer->vocab_size()),
      .step_time = args.step_time,
      .token_time = args.token_time,
      .hidden_size = static_cast<std::int32_t>(bundle.spec.hidden_size),
      .num_eos_token_ids = parts.scheduler.eos_token_ids.size(),
      .kv_groups = groups});
  if (args.wrap) executor = args.wrap(std::move(executor));
  parts.executor = std::move(executor);
  parts.stepped = std::move(stepped);
  return assemble_engine(std::move(parts));
}

}  // namespace quire
