#include "exec/device_part.h"

#include <algorithm>
#include <optional>

namespace quire {
namespace {

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

// Of each slot of a page: which of the device's slots it is; nullopt where no layer of its is
// there.
std::vector<std::optional<std::int64_t>> own_slots(const KvPaging& paging,
                                                   const LayerSpan& layers) {
  std::vector<bool> used(static_cast<std::size_t>(paging.slots_per_page));
  for (std::int64_t i = layers.begin; i < layers.end; ++i) {
    used[static_cast<std::size_t>(paging.places[static_cast<std::size_t>(i)].slot)] = true;
  }
  std::vector<std::optional<std::int64_t>> slots(used.size());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) slots[i] = count++;
  }
  return slots;
}

std::int64_t count_own_slots(const KvPaging& paging, const LayerSpan& layers) {
  return std::ranges::count_if(own_slots(paging, layers),
                               [](const auto& slot) { return slot.has_value(); });
}

}  // namespace

AttentionHeads DevicePart::attention_heads(const LayerSpec& layer) {
  const KvHeads heads = layer.kv_heads();
  return {.num_kv_heads = static_cast<std::int32_t>(heads.num_kv_heads),
          .heads_per_kv_head = static_cast<std::int32_t>(heads.num_heads / heads.num_kv_heads)};
}

std::uint64_t DevicePart::kv_page_bytes(const DecoderSpec& spec, const ModelRunnerConfig& config,
                                        const LayerSpan& layers) {
  const KvPaging paging = kv_paging(spec, config.max_model_len, config.kv_format());
  return kv_slot_bytes(spec, config, paging) *
         static_cast<std::uint64_t>(count_own_slots(paging, layers));
}

Result<std::unique_ptr<DevicePart>> DevicePart::create(Device& device, const DecoderSpec& spec,
                                                       const ModelRunnerConfig& config,
                                                       const LayerSpan& layers,
                                                       const StreamLimits& limits,
                                                       std::uint64_t activation_bytes) {
  const KvPaging paging = kv_paging(spec, config.max_model_len, config.kv_format());
  QUIRE_ASSIGN_OR_RETURN(KvStorage kv,
                         KvStorage::create(device, kv_slot_bytes(spec, config, paging),
                                           count_own_slots(paging, layers), config.num_blocks));
  QUIRE_ASSIGN_OR_RETURN(Buffer memory, device.allocate(activation_bytes));
  QUIRE_ASSIGN_OR_RETURN(auto ops, device.make_stream(limits));
  return std::unique_ptr<DevicePart>(new DevicePart(
      device, spec, config, paging, layers, std::move(kv), std::move(memory), std::move(ops)));
}

DevicePart::DevicePart(Device& device, const DecoderSpec& spec, const ModelRunnerConfig& config,
                       const KvPaging& paging, const LayerSpan& layers, KvStorage kv, Buffer memory,
                       std::unique_ptr<OpStream> ops)
    : device_(device),
      layers_(layers),
      places_(paging.places),
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      next_(memory_.data()),
      ops_(std::move(ops)) {
  plan_heads(spec, config, paging);
  if (paging.pages_per_block() > 1) {
    page_tables_.resize(static_cast<std::size_t>(paging.pages_per_block()));
    host_tables_.reserve(page_tables_.size());
    layer_tables_.resize(places_.size());
  }
}

// Layers with as many heads share a plan.
void DevicePart::plan_heads(const DecoderSpec& spec, const ModelRunnerConfig& config,
                            const KvPaging& paging) {
  kv_layers_.resize(places_.size());
  layer_heads_.resize(places_.size());
  const auto slots = own_slots(paging, layers_);
  const std::uint64_t slot_bytes = kv_slot_bytes(spec, config, paging);
  std::vector<AttentionHeads> kinds;
  for (auto i = static_cast<std::size_t>(layers_.begin); std::cmp_less(i, layers_.end); ++i) {
    const LayerSpec& layer = spec.layers[i];
    const KvPaging::Place& place = places_[i];
    kv_layers_[i] = kv_.slots()[*slots[static_cast<std::size_t>(place.slot)]] +
                    static_cast<std::uint64_t>(place.part) * layer_block_bytes(spec, i, config);
    layer_heads_[i].layout = kv_layout(layer, config, slot_bytes);
    if (layer.keeps_state()) continue;
    const AttentionHeads heads = attention_heads(layer);
    const auto kind = std::ranges::find(kinds, heads);
    const auto index = static_cast<std::size_t>(kind - kinds.begin());
    if (kind == kinds.end()) {
      kinds.push_back(heads);
      attention_plans_.push_back(ops_->plan_attention(config.max_num_batched_tokens, heads));
    }
    layer_heads_[i].plan = attention_plans_[index].get();
  }
}

void DevicePart::stage(std::span<const BlockCopy> copies, const InputBatch& batch) {
  for (const BlockCopy& copy : copies) kv_.copy_page(*ops_, copy.source, copy.destination);
  AttentionBatch attention = batch.attention_batch();
  host_tables_.clear();
  for (std::size_t page = 0; page < page_tables_.size(); ++page) {
    if (!batch.keeps_states(page)) host_tables_.push_back(batch.block_tables(page));
  }
  attention.layer_tables = host_tables_;
  for (const auto& plan : attention_plans_) plan->build(attention);
  tokens_ = {.num_tokens = batch.num_tokens(),
             .token_ids = ops_->stage(batch.token_ids()),
             .positions = ops_->stage(batch.positions()),
             .slot_mapping = ops_->stage(batch.slot_mapping()),
             .num_repeated = std::ssize(batch.repeated_rows()),
             .repeated_rows = ops_->stage(batch.repeated_rows()),
             .repeated_slots = ops_->stage(batch.repeated_slots())};
  stage_layer_tables(batch);
}

// What is staged of a page serves all layers of the page.
void DevicePart::stage_layer_tables(const InputBatch& batch) {
  if (layer_tables_.empty()) return;
  for (std::size_t page = 0; page < page_tables_.size(); ++page) {
    LayerTables& tables = page_tables_[page];
    tables = {page == 0 ? tokens_.slot_mapping : ops_->stage(batch.slot_mapping(page)),
              batch.block_tables(page),
              page == 0 ? tokens_.repeated_slots : ops_->stage(batch.repeated_slots(page))};
    const auto runs = batch.state_runs(page);
    tables.state_runs = ops_->stage(runs);
    tables.num_state_runs = std::ssize(runs);
  }
  for (std::size_t layer = 0; layer < layer_tables_.size(); ++layer) {
    layer_tables_[layer] = page_tables_[static_cast<std::size_t>(places_[layer].page)];
  }
}

ForwardContext DevicePart::context(Arena& arena) const {
  return {.ops = *ops_,
          .arena = arena,
          .tokens = tokens_,
          .kv_layout = {},
          .kv_layers = kv_layers_.data(),
          .layer_tables = layer_tables_.empty() ? nullptr : layer_tables_.data(),
          .layer_heads = layer_heads_.data()};
}

void DevicePart::prefault() {
  device_.prefault(kv_.buffer());
  device_.prefault(memory_);
  ops_->prefault();
}

}  // namespace quire
