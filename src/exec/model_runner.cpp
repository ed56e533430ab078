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

InputBatchLimits batch_limits(const ModelRunnerConfig& config, const KvPaging& paging) {
  return {.block_size = config.block_size,
          .pages_per_block = paging.pages_per_block(),
          .state_pages = paging.state_pages(),
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .max_num_seqs = config.max_num_seqs,
          .max_model_len = config.max_model_len,
          .max_draft_paths = config.max_draft_paths};
}

AttentionHeads attention_heads(const LayerSpec& layer) {
  const KvHeads heads = layer.kv_heads();
  return {.num_kv_heads = static_cast<std::int32_t>(heads.num_kv_heads),
          .heads_per_kv_head = static_cast<std::int32_t>(heads.num_heads / heads.num_kv_heads)};
}

// Of a layer's blocks, in slots of so many bytes; of a layer that keeps a state these alone.
KvLayout kv_layout(const LayerSpec& layer, const ModelRunnerConfig& config,
                   std::uint64_t slot_bytes) {
  if (layer.keeps_state()) return {.stride = slot_bytes};
  const KvHeads heads = layer.kv_heads();
  return {.dtype = config.kv_cache_dtype,
          .block_size = config.block_size,
          .num_kv_heads = static_cast<std::int32_t>(heads.num_kv_heads),
          .head_dim = static_cast<std::int32_t>(heads.head_dim),
          .stride = slot_bytes,
          .latent_dims = static_cast<std::int32_t>(heads.latent_dims)};
}

// What a layer keeps in a block.
std::uint64_t layer_block_bytes(const DecoderSpec& spec, std::size_t layer,
                                const ModelRunnerConfig& config) {
  const std::uint64_t state = spec.state_bytes(static_cast<std::int64_t>(layer));
  return state != 0 ? state : kv_layout(spec.layers[layer], config, 0).block_bytes();
}

std::uint64_t kv_slot_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config,
                            const KvPaging& paging) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const auto parts = static_cast<std::uint64_t>(paging.places[i].parts);
    bytes = std::max(bytes, parts * layer_block_bytes(spec, i, config));
  }
  return bytes;
}

}  // namespace

std::uint64_t ModelRunner::kv_block_bytes(const DecoderSpec& spec,
                                          const ModelRunnerConfig& config) {
  const KvPaging paging = paging_of(spec, config);
  return kv_page_bytes(spec, config) * static_cast<std::uint64_t>(paging.pages_per_block());
}

StreamLimits ModelRunner::stream_limits(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  AttentionSizes attention = {
      .max_seq_len = config.max_model_len,
      .max_num_seqs = std::min(config.max_num_seqs * config.max_draft_paths,
                               std::max(config.max_num_seqs, config.max_num_batched_tokens))};
  for (const LayerSpec& layer : spec.layers) {
    if (layer.keeps_state()) continue;
    const AttentionHeads heads = attention_heads(layer);
    attention.head_dim =
        std::max(attention.head_dim, static_cast<std::int32_t>(layer.kv_heads().head_dim));
    attention.heads_per_kv_head = std::max(attention.heads_per_kv_head, heads.heads_per_kv_head);
    attention.num_kv_heads = std::max(attention.num_kv_heads, heads.num_kv_heads);
  }
  return {.max_rows = std::max(config.max_num_batched_tokens, config.rows_at_once()),
          .max_inputs = spec.max_product_inputs(),
          .attention = attention,
          .vocab_size = spec.vocab_size,
          .max_sampled_rows = config.rows_at_once(),
          .experts = spec.experts(),
          .head_products = spec.head_products()};
}

std::uint64_t ModelRunner::kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config) {
  const KvPaging paging = paging_of(spec, config);
  return kv_slot_bytes(spec, config, paging) * static_cast<std::uint64_t>(paging.slots_per_page);
}

RunnerMemory ModelRunner::memory_of(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                    const StreamMemory& stream) {
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
  return memory;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const Model& model, Device& device,
                                                         const ModelRunnerConfig& config) {
  const DecoderSpec& spec = model.spec();
  const KvPaging paging = paging_of(spec, config);
  QUIRE_ASSIGN_OR_RETURN(KvStorage kv,
                         KvStorage::create(device, kv_slot_bytes(spec, config, paging),
                                           paging.slots_per_page, config.num_blocks));
  QUIRE_ASSIGN_OR_RETURN(Buffer memory, device.allocate(memory_of(spec, config, {}).on_device()));
  QUIRE_ASSIGN_OR_RETURN(auto ops, device.make_stream(stream_limits(spec, config)));
  return std::unique_ptr<ModelRunner>(new ModelRunner(model, device, config, paging, std::move(kv),
                                                      std::move(memory), std::move(ops)));
}

ModelRunner::ModelRunner(const Model& model, Device& device, const ModelRunnerConfig& config,
                         const KvPaging& paging, KvStorage kv, Buffer memory,
                         std::unique_ptr<OpStream> ops)
    : model_(model),
      device_(device),
      config_(config),
      places_(paging.places),
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      batch_(batch_limits(config, paging)),
      ops_(std::move(ops)),
      sampler_(model.spec().vocab_size, config.rows_at_once(), config.eos_token_ids),
      pooler_(config.rows_at_once(), model.spec().hidden_size),
      arena_({}) {
  const RunnerMemory parts = memory_of(model.spec(), config, {});
  std::byte* next = memory_.data();
  const auto take = [&](std::uint64_t bytes) { return std::exchange(next, next + bytes); };
  hidden_ = reinterpret_cast<float*>(take(parts.hidden));
  inner_ = reinterpret_cast<float*>(take(parts.inner));
  normed_ = reinterpret_cast<float*>(take(parts.normed));
  logits_ = reinterpret_cast<float*>(take(parts.logits));
  best_ = reinterpret_cast<RowBest*>(take(parts.best));
  arena_ = Arena({take(parts.arena), parts.arena});
  plan_heads(kv_slot_bytes(model.spec(), config, paging));
  if (paging.pages_per_block() > 1) {
    page_tables_.resize(static_cast<std::size_t>(paging.pages_per_block()));
    host_tables_.reserve(page_tables_.size());
    layer_tables_.resize(places_.size());
  }
  row_indices_.reserve(
      static_cast<std::size_t>(std::max(config.rows_at_once(), config.num_inner())));
  if (model.spec().state_input.present) {
    pairs_.reserve(static_cast<std::size_t>(2 * config.max_num_batched_tokens));
  }
}

// Layers with as many heads share a plan.
void ModelRunner::plan_heads(std::uint64_t slot_bytes) {
  std::vector<AttentionHeads> kinds;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const DecoderSpec& spec = model_.spec();
    const LayerSpec& layer = spec.layers[i];
    const KvPaging::Place& place = places_[i];
    kv_layers_.push_back(kv_.slots()[place.slot] + static_cast<std::uint64_t>(place.part) *
                                                       layer_block_bytes(spec, i, config_));
    const KvLayout layout = kv_layout(layer, config_, slot_bytes);
    if (layer.keeps_state()) {
      layer_heads_.push_back({layout, nullptr});
      continue;
    }
    const AttentionHeads heads = attention_heads(layer);
    const auto kind = std::ranges::find(kinds, heads);
    const auto index = static_cast<std::size_t>(kind - kinds.begin());
    if (kind == kinds.end()) {
      kinds.push_back(heads);
      attention_plans_.push_back(ops_->plan_attention(config_.max_num_batched_tokens, heads));
    }
    layer_heads_.push_back({layout, attention_plans_[index].get()});
  }
}

// What is staged of a page serves all layers of the page.
void ModelRunner::stage_layer_tables() {
  if (layer_tables_.empty()) return;
  for (std::size_t page = 0; page < page_tables_.size(); ++page) {
    LayerTables& tables = page_tables_[page];
    tables = {page == 0 ? tokens_.slot_mapping : ops_->stage(batch_.slot_mapping(page)),
              batch_.block_tables(page),
              page == 0 ? tokens_.repeated_slots : ops_->stage(batch_.repeated_slots(page))};
    const auto runs = batch_.state_runs(page);
    tables.state_runs = ops_->stage(runs);
    tables.num_state_runs = std::ssize(runs);
  }
  for (std::size_t layer = 0; layer < layer_tables_.size(); ++layer) {
    layer_tables_[layer] = page_tables_[static_cast<std::size_t>(places_[layer].page)];
  }
}

Status ModelRunner::prepare(const SchedulerOutput& step, ModelRunnerOutput& result) {
  const ScopedSpan span(ops_->spans(), kPrepareStage);
  QUIRE_RETURN_IF_ERROR(batch_.prepare(step));
  pooler_.prepare(step);
  result.clear();
  result.step_id = step.step_id;
  ops_->begin_step();
  if (offloader_ != nullptr) QUIRE_RETURN_IF_ERROR(offloader_->begin(step, *ops_));
  for (const BlockCopy& copy : step.block_copies) {
    kv_.copy_page(*ops_, copy.source, copy.destination);
  }
  AttentionBatch attention = batch_.attention_batch();
  host_tables_.clear();
  for (std::size_t page = 0; page < page_tables_.size(); ++page) {
    if (!batch_.keeps_states(page)) host_tables_.push_back(batch_.block_tables(page));
  }
  attention.layer_tables = host_tables_;
  for (const auto& plan : attention_plans_) plan->build(attention);
  tokens_ = {.num_tokens = batch_.num_tokens(),
             .token_ids = ops_->stage(batch_.token_ids()),
             .positions = ops_->stage(batch_.positions()),
             .slot_mapping = ops_->stage(batch_.slot_mapping()),
             .num_repeated = std::ssize(batch_.repeated_rows()),
             .repeated_rows = ops_->stage(batch_.repeated_rows()),
             .repeated_slots = ops_->stage(batch_.repeated_slots())};
  stage_layer_tables();
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
  states_ = ops_->stage(given_states_);
  staged_pairs_ = ops_->stage(std::span<const std::int64_t>(pairs_));
  return {};
}

ForwardContext ModelRunner::context() {
  return {.ops = *ops_,
          .arena = arena_,
          .tokens = tokens_,
          .attention_plan = *attention_plans_.front(),
          .kv_layout = layer_heads_.front().layout,
          .kv_layers = kv_layers_.data(),
          .layer_tables = layer_tables_.empty() ? nullptr : layer_tables_.data(),
          .layer_heads = layer_heads_.data(),
          .inner_states = {.layers = config_.inner_layers,
                           .data = inner_,
                           .bytes = static_cast<std::uint64_t>(tokens_.num_tokens *
                                                               model_.spec().hidden_size) *
                                    sizeof(float)},
          .states = states_,
          .state_size = state_size_,
          .pairs = staged_pairs_,
          .activation_mode = config_.activation_mode};
}

Status ModelRunner::forward(const SchedulerOutput& step, ModelRunnerOutput& result) {
  QUIRE_RETURN_IF_ERROR(prepare(step, result));
  if (batch_.num_tokens() == 0) return {};
  const auto sampled = rows_at_once<InputBatch::SampleRow>(batch_.sample_rows());
  if (batch_.prompt_rows().empty() && batch_.pool_rows().empty()) {
    compute(sampled);
    return pooler_.give(step, result);
  }
  ForwardContext ctx = context();
  model_.forward(ctx, hidden_);
  QUIRE_RETURN_IF_ERROR(score_prompts(ctx, result));
  QUIRE_RETURN_IF_ERROR(pool_prompts(ctx));
  QUIRE_RETURN_IF_ERROR(pooler_.give(step, result));
  compute_logits(ctx, sampled);
  return {};
}

void ModelRunner::compute(std::span<const InputBatch::SampleRow> rows) {
  const std::int64_t* const staged = staged_rows(rows);
  ForwardContext ctx = context();
  const auto compute_all = [&] {
    model_.forward(ctx, hidden_);
    if (!row_indices_.empty()) compute_logits(ctx, staged);
  };
  ops_->run_piece(piece_key(ctx, staged), attention_plans_, std::ref(compute_all));
}

// All that may be another in another step. What the context and its parts have more than this would
// not compile.
const PieceKey& ModelRunner::piece_key(const ForwardContext& ctx, const std::int64_t* rows) {
  PieceKey& key = piece_key_;
  key.clear();
  key.add(model_version_, row_indices_.size(), rows);
  const auto& [ops, arena, tokens, attention_plan, kv_layout, kv_layers, layer_tables, layer_heads,
               per_layer_inputs, streams, inner_states, states, state_size, pairs, joined,
               activation_mode] = ctx;
  const auto& [num_tokens, token_ids, positions, slot_mapping, num_repeated, repeated_rows,
               repeated_slots] = tokens;
  key.add(num_tokens, token_ids, positions, slot_mapping, num_repeated, repeated_rows,
          repeated_slots, states, state_size, pairs, inner_states.bytes);
  for (const LayerTables& tables : page_tables_) {
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
    QUIRE_RETURN_IF_ERROR(sampler_.sample(*ops_, {logits_, best_}, part, result));
    rows = rows.subspan(part.size());
    if (rows.empty()) break;
    ForwardContext ctx = context();
    compute_logits(ctx, rows_at_once(rows));
  }
  {
    const ScopedSpan span(ops_->spans(), kAppendStage);
    map_tokens(result);
    batch_.accept(result.sampled);
  }
  if (config_.states != StateRows::kNone) QUIRE_RETURN_IF_ERROR(give_back_states(result));
  // What the step was made of may change after it.
  return batch_.sample_rows().empty() ? ops_->synchronize() : Status();
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
      for (std::int64_t i = 0; i < parts; ++i) row_indices_.push_back(i * tokens_.num_tokens + row);
    }
    const std::int64_t* const staged = staged_row_indices();
    if (config_.states == StateRows::kFinal) {
      ForwardContext ctx = context();
      model_.final_states(ctx, hidden_, staged, std::ssize(part), normed_);
    } else {
      ops_->gather_rows(config_.states == StateRows::kInner ? inner_ : hidden_, staged,
                        std::ssize(row_indices_), model_.spec().hidden_size, normed_);
    }
    ops_->download(normed_, std::ssize(part) * size, to);
    QUIRE_RETURN_IF_ERROR(ops_->synchronize());
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
    QUIRE_RETURN_IF_ERROR(sampler_.score(*ops_, {logits_, best_}, part, result));
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
    ops_->download(normed_, std::ssize(part) * model_.spec().hidden_size, pooler_.states().data());
    QUIRE_RETURN_IF_ERROR(ops_->synchronize());
    for (std::size_t i = 0; i < part.size(); ++i) pooler_.add(part[i].request_id, i);
    rows = rows.subspan(part.size());
  }
  return {};
}

Status ModelRunner::offload_to(std::unique_ptr<BlockFile> file) {
  QUIRE_ASSIGN_OR_RETURN(offloader_, KvOffloader::create(device_, kv_, std::move(file)));
  return {};
}

void ModelRunner::prefault() {
  device_.prefault(kv_.buffer());
  device_.prefault(memory_);
  ops_->prefault();
  batch_.prefault();
}

}  // namespace quire
