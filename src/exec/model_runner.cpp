#include "exec/model_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/sizing.h"

namespace quire {
namespace {

// How `memory_` is cut: hidden states, normed rows, logits, activations of a block, op workspace.
struct MemoryParts {
  std::uint64_t hidden = 0;
  std::uint64_t normed = 0;
  std::uint64_t logits = 0;
  std::uint64_t arena = 0;
  std::uint64_t workspace = 0;

  std::uint64_t total() const { return hidden + normed + logits + arena + workspace; }
};

MemoryParts memory_parts(const DecoderSpec& spec, const ModelRunnerConfig& config,
                         int num_threads) {
  const std::int64_t rows = config.max_num_batched_tokens;
  const std::int64_t max_inputs =
      std::max({spec.hidden_size, spec.intermediate_size, spec.q_width()});
  MemoryParts parts;
  parts.hidden = Arena::float_bytes(rows * spec.hidden_size);
  parts.normed = Arena::float_bytes(config.max_num_seqs * spec.hidden_size);
  parts.logits = Arena::float_bytes(config.max_num_seqs * spec.vocab_size);
  parts.arena = Model::arena_bytes(spec, rows);
  parts.workspace = workspace_bytes(
      std::max(rows, config.max_num_seqs), max_inputs, static_cast<std::int32_t>(spec.head_dim),
      static_cast<std::int32_t>(spec.num_heads / spec.num_kv_heads), num_threads);
  parts.workspace =
      (parts.workspace + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  return parts;
}

KvLayout kv_layout(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return {.dtype = config.kv_cache_dtype,
          .block_size = config.block_size,
          .num_kv_heads = static_cast<std::int32_t>(spec.num_kv_heads),
          .head_dim = static_cast<std::int32_t>(spec.head_dim)};
}

}  // namespace

std::uint64_t ModelRunner::kv_block_bytes(const DecoderSpec& spec,
                                          const ModelRunnerConfig& config) {
  return kv_layout(spec, config).block_bytes() * static_cast<std::uint64_t>(spec.num_layers);
}

std::uint64_t ModelRunner::activation_bytes(const DecoderSpec& spec,
                                            const ModelRunnerConfig& config, int num_threads) {
  return memory_parts(spec, config, num_threads).total();
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const Model& model, ThreadPool& pool,
                                                         const OpTable& table,
                                                         const ModelRunnerConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(KvStorage kv,
                         KvStorage::create(kv_layout(model.spec(), config), model.spec().num_layers,
                                           config.num_blocks));
  QUIRE_ASSIGN_OR_RETURN(
      Buffer memory, Buffer::allocate(activation_bytes(model.spec(), config, pool.num_threads())));
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(model, pool, table, config, std::move(kv), std::move(memory)));
}

ModelRunner::ModelRunner(const Model& model, ThreadPool& pool, const OpTable& table,
                         const ModelRunnerConfig& config, KvStorage kv, Buffer memory)
    : model_(model),
      config_(config),
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      batch_(config.block_size, config.max_num_batched_tokens, config.max_num_seqs),
      sampler_(model.spec().vocab_size, config.max_num_seqs),
      ops_{.pool = pool, .table = table, .workspace = {}},
      arena_({}) {
  const MemoryParts parts = memory_parts(model.spec(), config, pool.num_threads());
  std::byte* next = memory_.data();
  const auto take = [&](std::uint64_t bytes) { return std::exchange(next, next + bytes); };
  hidden_ = reinterpret_cast<float*>(take(parts.hidden));
  normed_ = reinterpret_cast<float*>(take(parts.normed));
  logits_ = reinterpret_cast<float*>(take(parts.logits));
  arena_ = Arena({take(parts.arena), parts.arena});
  ops_.workspace = {take(parts.workspace), parts.workspace};
  sample_row_indices_.reserve(static_cast<std::size_t>(config.max_num_seqs));
  attention_plan_.reserve(static_cast<std::int32_t>(config.max_num_batched_tokens),
                          static_cast<std::int32_t>(model.spec().num_kv_heads));
}

Status ModelRunner::execute(const SchedulerOutput& step, ModelRunnerOutput& result) {
  QUIRE_RETURN_IF_ERROR(batch_.prepare(step));
  result.clear();
  result.step_id = step.step_id;
  for (const BlockCopy& copy : step.block_copies) kv_.copy_block(copy.source, copy.destination);
  if (batch_.num_tokens() == 0) return {};

  attention_plan_.build(batch_.attention_batch(), kv_.layout().num_kv_heads);
  ForwardContext ctx = {.ops = ops_,
                        .arena = arena_,
                        .tokens = {.num_tokens = batch_.num_tokens(),
                                   .token_ids = batch_.token_ids(),
                                   .positions = batch_.positions(),
                                   .slot_mapping = batch_.slot_mapping()},
                        .attention_plan = attention_plan_,
                        .kv_layout = kv_.layout(),
                        .kv_layers = kv_.layers(),
                        .activation_mode = config_.activation_mode};
  model_.forward(ctx, hidden_);

  const auto& sample_rows = batch_.sample_rows();
  if (sample_rows.empty()) return {};
  sample_row_indices_.clear();
  for (const InputBatch::SampleRow& row : sample_rows) sample_row_indices_.push_back(row.row);
  model_.logits(ctx, hidden_, sample_row_indices_.data(),
                static_cast<std::int64_t>(sample_rows.size()), normed_, logits_);
  QUIRE_ASSIGN_OR_RETURN(result.sampled, sampler_.sample(ops_, logits_, sample_rows));
  for (const SampledToken& token : result.sampled) {
    batch_.append_token(token.request_id, token.token_id);
  }
  return {};
}

}  // namespace quire
