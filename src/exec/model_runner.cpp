#include "exec/model_runner.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr Stage kPrepareStage = {StageKind::kBookkeeping, "prepare"};
constexpr Stage kAppendStage = {StageKind::kBookkeeping, "append tokens"};

KvPaging paging_of(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return kv_paging(spec, config.max_model_len, config.kv_format());
}

LayerSpan host_layers(const ModelRunnerConfig& config) { return {0, config.split.host_layers}; }

LayerSpan main_layers(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return {config.split.host_layers, spec.num_layers()};
}

InputBatchLimits batch_limits(const ModelRunnerConfig& config, const KvPaging& paging) {
  return {.block_size = config.block_size,
          .pages_per_block = paging.pages_per_block(),
          .state_pages = paging.state_pages(),
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .max_num_seqs = config.max_num_seqs,
          .max_model_len = config.max_model_len,
          .max_draft_paths = config.max_draft_paths};
}

bool has_distant_experts(const DecoderSpec& spec, const LayerSplit& split) {
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    if (spec.layers[static_cast<std::size_t>(i)].moe() != nullptr && split.distant_experts(i)) {
      return true;
    }
  }
  return false;
}

DistantExperts::Sizes distant_sizes(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return {.max_rows = config.max_num_batched_tokens,
          .hidden_size = spec.hidden_size,
          .experts_per_row = spec.experts().experts_per_row};
}

AttentionSizes attention_sizes(const DecoderSpec& spec, const ModelRunnerConfig& config,
                               const LayerSpan& layers) {
  if (layers.begin == layers.end) return {};
  AttentionSizes attention = {
      .max_seq_len = config.max_model_len,
      .max_num_seqs = std::min(config.max_num_seqs * config.max_draft_paths,
                               std::max(config.max_num_seqs, config.max_num_batched_tokens))};
  for (std::int64_t i = layers.begin; i < layers.end; ++i) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(i)];
    if (layer.keeps_state()) continue;
    const AttentionHeads heads = DevicePart::attention_heads(layer);
    attention.head_dim =
        std::max(attention.head_dim, static_cast<std::int32_t>(layer.kv_heads().head_dim));
    attention.heads_per_kv_head = std::max(attention.heads_per_kv_head, heads.heads_per_kv_head);
    attention.num_kv_heads = std::max(attention.num_kv_heads, heads.num_kv_heads);
  }
  return attention;
}

}  // namespace

std::uint64_t ModelRunner::kv_block_bytes(const DecoderSpec& spec,
                                          const ModelRunnerConfig& config) {
  const KvPaging paging = paging_of(spec, config);
  return kv_page_bytes(spec, config).total() * static_cast<std::uint64_t>(paging.pages_per_block());
}

SplitBytes ModelRunner::kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return {DevicePart::kv_page_bytes(spec, config, main_layers(spec, config)),
          DevicePart::kv_page_bytes(spec, config, host_layers(config))};
}

StreamLimits ModelRunner::stream_limits(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  return {.max_rows = std::max(config.max_num_batched_tokens, config.rows_at_once()),
          .max_inputs = spec.max_product_inputs(),
          .attention = attention_sizes(spec, config, main_layers(spec, config)),
          .vocab_size = spec.vocab_size,
          .max_sampled_rows = config.rows_at_once(),
          .experts = spec.experts(),
          .head_products = spec.head_products(),
          .downloaded_bytes = has_distant_experts(spec, config.split)
                                  ? DistantExperts::downloaded_bytes(distant_sizes(spec, config))
                                  : 0};
}

StreamLimits ModelRunner::host_stream_limits(const DecoderSpec& spec,
                                             const ModelRunnerConfig& config) {
  return {.max_rows = config.max_num_batched_tokens,
          .max_inputs = spec.max_product_inputs(),
          .attention = attention_sizes(spec, config, host_layers(config)),
          .vocab_size = 1,
          .max_sampled_rows = 1,
          .experts = spec.experts(),
          .head_products = spec.head_products()};
}

RunnerMemory ModelRunner::memory_of(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                    const StreamMemory& stream, const StreamMemory& host) {
  const std::int64_t rows = config.max_num_batched_tokens;
  RunnerMemory memory;
  memory.hidden = Arena::float_bytes(rows * spec.hidden_size);
  memory.inner = Arena::float_bytes(config.num_inner() * rows * spec.hidden_size);
  memory.normed =
      Arena::float_bytes(std::max(config.rows_at_once(), config.num_inner()) * spec.hidden_size);
  // The output thread has one result, the engine's another, and each step in flight fills one.
  memory.pooled = static_cast<std::uint64_t>(2 + config.max_steps_in_flight) *
                      Arena::float_bytes(std::min(rows, config.rows_at_once()) * spec.hidden_size) +
                  Pooler::bytes(config.rows_at_once(), spec.hidden_size);
  memory.logits = Arena::float_bytes(config.rows_at_once() * spec.vocab_size);
  memory.best = Arena::array_bytes<RowBest>(config.rows_at_once());
  memory.arena = Model::arena_bytes(spec, rows);
  memory.workspace = stream.workspace;
  memory.sampler = stream.sampling + Sampler::bytes(spec.vocab_size, config.rows_at_once());
  // Of pooled ones as many; of layers that draft the result is one.
  const auto num_results = static_cast<std::uint64_t>(
      config.states == StateRows::kLast ? 1 : 2 + config.max_steps_in_flight);
  if (config.states != StateRows::kNone) {
    const std::int64_t size = std::max<std::int64_t>(config.num_inner(), 1) * spec.hidden_size;
    memory.states = num_results * static_cast<std::uint64_t>(rows * size) * sizeof(float);
  }
  if (spec.state_input.present) {
    memory.states += static_cast<std::uint64_t>(2 * rows) * sizeof(std::int64_t);
  }
  memory.batch = InputBatch::bytes(batch_limits(config, paging_of(spec, config)));
  memory.downloads = stream.downloads;
  if (config.split.host_layers > 0) {
    memory.host_hidden = memory.hidden;
    memory.host_arena = memory.arena;
    memory.host_transfers = Crossing::bytes(Model::crossing_numbers(spec, rows));
  }
  if (has_distant_experts(spec, config.split)) {
    memory.host_experts = DistantExperts::bytes(distant_sizes(spec, config));
    memory.host_transfers += DistantExperts::host_bytes(distant_sizes(spec, config));
  }
  memory.host_workspace = host.workspace + host.sampling;
  return memory;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const Model& model,
                                                         const ModelDevices& devices,
                                                         const ModelRunnerConfig& config) {
  const DecoderSpec& spec = model.spec();
  const RunnerMemory memory = memory_of(spec, config, {});
  QUIRE_ASSIGN_OR_RETURN(auto main,
                         DevicePart::create(*devices.main, spec, config, main_layers(spec, config),
                                            stream_limits(spec, config), memory.on_device()));
  std::unique_ptr<DevicePart> host;
  if (!config.split.empty()) {
    QUIRE_ASSIGN_OR_RETURN(
        host, DevicePart::create(*devices.host, spec, config, host_layers(config),
                                 host_stream_limits(spec, config), memory.of_host_part()));
  }
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(model, config, std::move(main), std::move(host)));
}

ModelRunner::ModelRunner(const Model& model, const ModelRunnerConfig& config,
                         std::unique_ptr<DevicePart> main, std::unique_ptr<DevicePart> host)
    : model_(model),
      config_(config),
      main_(std::move(main)),
      host_(std::move(host)),
      batch_(batch_limits(config, paging_of(model.spec(), config))),
      sampler_(model.spec().vocab_size, config.rows_at_once(), config.eos_token_ids),
      pooler_(config.rows_at_once(), model.spec().hidden_size),
      arena_({}),
      host_arena_({}) {
  const DecoderSpec& spec = model.spec();
  const RunnerMemory parts = memory_of(spec, config, {});
  hidden_ = main_->take<float>(parts.hidden);
  inner_ = main_->take<float>(parts.inner);
  normed_ = main_->take<float>(parts.normed);
  logits_ = main_->take<float>(parts.logits);
  best_ = main_->take<RowBest>(parts.best);
  arena_ = Arena({main_->take<std::byte>(parts.arena), parts.arena});
  if (config.split.host_layers > 0) {
    host_hidden_ = host_->take<float>(parts.host_hidden);
    host_arena_ = Arena({host_->take<std::byte>(parts.host_arena), parts.host_arena});
    crossing_.emplace(Model::crossing_numbers(spec, config.max_num_batched_tokens));
  }
  if (has_distant_experts(spec, config.split)) {
    experts_.emplace(host_->ops(), host_->take<float>(parts.host_experts),
                     distant_sizes(spec, config));
  }
  row_indices_.reserve(
      static_cast<std::size_t>(std::max(config.rows_at_once(), config.num_inner())));
  if (spec.state_input.present) {
    pairs_.reserve(static_cast<std::size_t>(2 * config.max_num_batched_tokens));
  }
}

void ModelRunner::record_spans(SpanRecorder& spans, SpanRecorder& on_device) {
  main_->ops().record_spans(spans, on_device);
  if (host_ != nullptr) host_->ops().record_spans(spans, on_device);
}

std::uint64_t ModelRunner::kv_cache_bytes() const {
  return main_->kv().size_bytes() + (host_ == nullptr ? 0 : host_->kv().size_bytes());
}

Status ModelRunner::prepare(const SchedulerOutput& step, ModelRunnerOutput& result) {
  const ScopedSpan span(ops().spans(), kPrepareStage);
  QUIRE_RETURN_IF_ERROR(batch_.prepare(step));
  pooler_.prepare(step);
  result.clear();
  result.step_id = step.step_id;
  main_->ops().begin_step();
  if (host_ != nullptr) host_->ops().begin_step();
  if (offloader_ != nullptr) QUIRE_RETURN_IF_ERROR(offloader_->begin(step));
  main_->stage(step.block_copies, batch_);
  if (host_ != nullptr) host_->stage(step.block_copies, batch_);
  return model_.spec().state_input.present ? stage_states() : Status();
}

Status ModelRunner::stage_states() {
  const std::int64_t rows = batch_.num_tokens();
  const DecoderSpec& spec = model_.spec();
  state_size_ = rows == 0 ? spec.hidden_size : std::ssize(given_states_) / rows;
  if (std::ssize(given_states_) != rows * state_size_ ||
      (state_size_ != spec.state_size() && state_size_ != spec.hidden_size)) {
    return Status::internal(fmt::format("{} numbers are states of {} rows of {}",
                                        given_states_.size(), rows, spec.state_size()));
  }
  pairs_.clear();
  for (std::int64_t row = 0; row < rows; ++row) {
    pairs_.push_back(row);
    pairs_.push_back(rows + row);
  }
  states_ = ops().stage(given_states_);
  staged_pairs_ = ops().stage(std::span<const std::int64_t>(pairs_));
  return {};
}

ForwardContext ModelRunner::context() {
  ForwardContext ctx = main_->context(arena_);
  ctx.inner_states = {
      .layers = config_.inner_layers,
      .data = inner_,
      .bytes =
          static_cast<std::uint64_t>(num_tokens() * model_.spec().hidden_size) * sizeof(float)};
  ctx.states = states_;
  ctx.state_size = state_size_;
  ctx.pairs = staged_pairs_;
  ctx.activation_mode = config_.activation_mode;
  ctx.distant_experts = experts_ ? &*experts_ : nullptr;
  return ctx;
}

Status ModelRunner::compute_host_layers(ForwardContext& ctx) {
  ForwardContext host = host_->context(host_arena_);
  host.activation_mode = config_.activation_mode;
  return model_.forward_host_layers(host, host_hidden_, ctx, hidden_, *crossing_);
}

Status ModelRunner::compute_hidden(ForwardContext& ctx) {
  const Arena::Scope scope(arena_);
  if (crossing_) QUIRE_RETURN_IF_ERROR(compute_host_layers(ctx));
  model_.forward(ctx, hidden_);
  return experts_ ? experts_->take_status() : Status();
}

Status ModelRunner::forward(const SchedulerOutput& step, ModelRunnerOutput& result) {
  QUIRE_RETURN_IF_ERROR(prepare(step, result));
  if (num_tokens() == 0) return {};
  const auto sampled = rows_at_once<InputBatch::SampleRow>(batch_.sample_rows());
  if (batch_.prompt_rows().empty() && batch_.pool_rows().empty()) {
    QUIRE_RETURN_IF_ERROR(compute(sampled));
    return pooler_.give(step, result);
  }
  ForwardContext ctx = context();
  QUIRE_RETURN_IF_ERROR(compute_hidden(ctx));
  QUIRE_RETURN_IF_ERROR(score_prompts(ctx, result));
  QUIRE_RETURN_IF_ERROR(pool_prompts(ctx));
  QUIRE_RETURN_IF_ERROR(pooler_.give(step, result));
  compute_logits(ctx, sampled);
  return {};
}

Status ModelRunner::compute(std::span<const InputBatch::SampleRow> rows) {
  const std::int64_t* const staged = staged_rows(rows);
  ForwardContext ctx = context();
  const Arena::Scope scope(arena_);
  if (crossing_) QUIRE_RETURN_IF_ERROR(compute_host_layers(ctx));
  const auto compute_all = [&] {
    model_.forward(ctx, hidden_);
    if (!row_indices_.empty()) compute_logits(ctx, staged);
  };
  if (experts_) {  // which the host is asked for in between
    compute_all();
    return experts_->take_status();
  }
  ops().run_piece(piece_key(ctx, staged), main_->attention_plans(), std::ref(compute_all));
  return {};
}

// All that may be another in another step. What the context and its parts have more than this would
// not compile.
const PieceKey& ModelRunner::piece_key(const ForwardContext& ctx, const std::int64_t* rows) {
  PieceKey& key = piece_key_;
  key.clear();
  key.add(model_version_, row_indices_.size(), rows);
  const auto& [ops, arena, tokens, attention_plan, kv_layout, kv_layers, layer_tables, layer_heads,
               per_layer_inputs, streams, inner_states, states, state_size, pairs, joined,
               activation_mode, distant_experts] = ctx;
  const auto& [num_tokens, token_ids, positions, slot_mapping, num_repeated, repeated_rows,
               repeated_slots] = tokens;
  key.add(num_tokens, token_ids, positions, slot_mapping, num_repeated, repeated_rows,
          repeated_slots, per_layer_inputs.data, per_layer_inputs.stride, streams, states,
          state_size, pairs, inner_states.bytes);
  for (const LayerTables& tables : main_->page_tables()) {
    const auto& [slots, block_tables, repeated, runs, num_runs] = tables;
    key.add(slots, block_tables, repeated, runs, num_runs);
  }
  return key;
}

Status ModelRunner::sample(std::span<const TokenMask> masks, ModelRunnerOutput& result) {
  QUIRE_RETURN_IF_ERROR(batch_.apply_masks(masks));
  std::span<const InputBatch::SampleRow> rows = batch_.sample_rows();
  while (!rows.empty()) {
    const auto part = rows_at_once(rows);
    QUIRE_RETURN_IF_ERROR(sampler_.sample(ops(), {logits_, best_}, part, result));
    rows = rows.subspan(part.size());
    if (rows.empty()) break;
    ForwardContext ctx = context();
    compute_logits(ctx, rows_at_once(rows));
  }
  {
    const ScopedSpan span(ops().spans(), kAppendStage);
    map_tokens(result);
    batch_.accept(result.sampled);
  }
  if (config_.states != StateRows::kNone) QUIRE_RETURN_IF_ERROR(give_back_states(result));
  // What the step was made of may change after it.
  if (host_ != nullptr) QUIRE_RETURN_IF_ERROR(host_->ops().synchronize());
  return batch_.sample_rows().empty() ? ops().synchronize() : Status();
}

void ModelRunner::map_tokens(ModelRunnerOutput& result) const {
  if (config_.token_map.empty()) return;
  const auto map = [&](TokenId& token) {
    token = config_.token_map[static_cast<std::size_t>(token)];
  };
  for (SampledToken& token : result.sampled) map(token.token_id);
  for (TokenLogprob& token : result.top_logprobs) map(token.token_id);
}

// As many at a time as already allocated memory has room for. Those of inner layers lie layer by
// layer, and are gathered row by row.
Status ModelRunner::give_back_states(ModelRunnerOutput& result) {
  const std::int64_t parts = std::max<std::int64_t>(config_.num_inner(), 1);
  const std::int64_t size = parts * model_.spec().hidden_size;
  const auto at_once =
      static_cast<std::size_t>(std::max<std::int64_t>(config_.rows_at_once() / parts, 1));
  result.states.reserve(static_cast<std::size_t>(config_.max_num_batched_tokens * size));
  std::span<const std::int64_t> rows = batch_.known_rows();
  result.states.resize(rows.size() * static_cast<std::size_t>(size));
  float* to = result.states.data();
  while (!rows.empty()) {
    const auto part = rows.first(std::min(rows.size(), at_once));
    row_indices_.clear();
    for (const std::int64_t row : part) {
      for (std::int64_t i = 0; i < parts; ++i) row_indices_.push_back(i * num_tokens() + row);
    }
    const std::int64_t* const staged = staged_row_indices();
    if (config_.states == StateRows::kFinal) {
      ForwardContext ctx = context();
      model_.final_states(ctx, hidden_, staged, std::ssize(part), normed_);
    } else {
      ops().gather_rows(config_.states == StateRows::kInner ? inner_ : hidden_, staged,
                        std::ssize(row_indices_), model_.spec().hidden_size, normed_);
    }
    ops().download(normed_, std::ssize(part) * size, to);
    QUIRE_RETURN_IF_ERROR(ops().synchronize());
    to += std::ssize(part) * size;
    rows = rows.subspan(part.size());
  }
  return {};
}

// The log probabilities of prompts, rows_at_once() at a time, for which there is memory anyway.
Status ModelRunner::score_prompts(ForwardContext& ctx, ModelRunnerOutput& result) {
  std::span<const InputBatch::PromptRow> rows = batch_.prompt_rows();
  while (!rows.empty()) {
    const auto part = rows_at_once(rows);
    compute_logits(ctx, part);
    QUIRE_RETURN_IF_ERROR(sampler_.score(ops(), {logits_, best_}, part, result));
    rows = rows.subspan(part.size());
  }
  return {};
}

// The final hidden states of rows that are pooled, as many at a time; no logits are computed for
// them.
Status ModelRunner::pool_prompts(ForwardContext& ctx) {
  std::span<const InputBatch::PoolRow> rows = batch_.pool_rows();
  while (!rows.empty()) {
    const auto part = rows_at_once(rows);
    row_indices_.clear();
    for (const InputBatch::PoolRow& row : part) row_indices_.push_back(row.row);
    model_.final_states(ctx, hidden_, staged_row_indices(), std::ssize(row_indices_), normed_);
    ops().download(normed_, std::ssize(part) * model_.spec().hidden_size, pooler_.states().data());
    QUIRE_RETURN_IF_ERROR(ops().synchronize());
    for (std::size_t i = 0; i < part.size(); ++i) pooler_.add(part[i].request_id, i);
    rows = rows.subspan(part.size());
  }
  return {};
}

Status ModelRunner::offload_to(std::unique_ptr<BlockFile> file) {
  std::vector<KvOffloader::Part> parts = {main_->kv_part()};
  if (host_ != nullptr) parts.push_back(host_->kv_part());
  QUIRE_ASSIGN_OR_RETURN(offloader_, KvOffloader::create(parts, std::move(file)));
  return {};
}

void ModelRunner::prefault() {
  main_->prefault();
  if (host_ != nullptr) host_->prefault();
  batch_.prefault();
}

}  // namespace quire
