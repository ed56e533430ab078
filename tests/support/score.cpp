#include "support/score.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "kernels/cpu_device.h"
#include "kernels/cuda_device.h"
#include "load/model_bundle.h"

namespace quire::test {
namespace {

AttentionHeads heads_of(const LayerSpec& layer) {
  const KvHeads heads = layer.kv_heads();
  return {.num_kv_heads = static_cast<std::int32_t>(heads.num_kv_heads),
          .heads_per_kv_head = static_cast<std::int32_t>(heads.num_heads / heads.num_kv_heads)};
}

Result<std::unique_ptr<Device>> make_device(IsaLevel level) {
  if (scores_on_gpu()) {
    QUIRE_ASSIGN_OR_RETURN(const CudaDeviceInfo gpu, find_cuda_device(0));
    return make_cuda_device(gpu, 2, op_table(level));
  }
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(2, op_table(level)));
}

}  // namespace

bool scores_on_gpu() {
  const char* const name = std::getenv("QUIRE_TEST_DEVICE");
  return name != nullptr && std::string_view(name) == "cuda";
}

Result<std::unique_ptr<Scorer>> Scorer::open(const std::string& path, IsaLevel level,
                                             ActivationMode mode, DType kv_dtype,
                                             std::int64_t max_tokens,
                                             LoadQuantization quantization) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(path, ""));
  QUIRE_ASSIGN_OR_RETURN(auto device, make_device(level));
  auto scorer = std::unique_ptr<Scorer>(new Scorer(std::move(device)));
  QUIRE_ASSIGN_OR_RETURN(scorer->model_, Model::load(bundle.spec, *bundle.weights, max_tokens,
                                                     *scorer->device_, nullptr, quantization));
  const DecoderSpec& spec = scorer->model_->spec();
  scorer->mode_ = mode;
  const auto blocks = static_cast<std::uint64_t>(ceil_div(max_tokens, 16));
  std::uint64_t kv_bytes = 0;
  AttentionSizes sizes = {.max_seq_len = max_tokens, .max_num_seqs = max_tokens};
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (layer.keeps_state()) {
      scorer->layouts_.push_back({.stride = spec.state_bytes(static_cast<std::int64_t>(i))});
      kv_bytes += scorer->layouts_.back().stride * blocks;
      continue;
    }
    const AttentionHeads heads = heads_of(layer);
    scorer->layouts_.push_back(
        {.dtype = kv_dtype,
         .block_size = 16,
         .num_kv_heads = heads.num_kv_heads,
         .head_dim = static_cast<std::int32_t>(layer.kv_heads().head_dim),
         .latent_dims = static_cast<std::int32_t>(layer.kv_heads().latent_dims)});
    kv_bytes += scorer->layouts_.back().block_bytes() * blocks;
    sizes.head_dim = std::max(sizes.head_dim, scorer->layouts_.back().head_dim);
    sizes.num_kv_heads = std::max(sizes.num_kv_heads, heads.num_kv_heads);
    sizes.heads_per_kv_head = std::max(sizes.heads_per_kv_head, heads.heads_per_kv_head);
  }
  QUIRE_ASSIGN_OR_RETURN(scorer->kv_, scorer->device_->allocate(kv_bytes));
  QUIRE_ASSIGN_OR_RETURN(scorer->ops_,
                         scorer->device_->make_stream({.max_rows = max_tokens,
                                                       .max_inputs = spec.max_product_inputs(),
                                                       .attention = sizes,
                                                       .experts = spec.experts(),
                                                       .head_products = spec.head_products()}));
  QUIRE_ASSIGN_OR_RETURN(scorer->activations_,
                         scorer->device_->allocate(Model::arena_bytes(spec, max_tokens)));
  scorer->arena_ = Arena(scorer->activations_.bytes());
  return scorer;
}

std::vector<float> Scorer::score(const std::vector<TokenId>& tokens, std::int64_t first) {
  const DecoderSpec& spec = model_->spec();
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::int64_t> slots(positions.begin(), positions.end());
  ops_->begin_step();
  const auto staged = [&](const auto& values) {
    return ops_->stage(std::span(std::as_const(values)));
  };
  const std::int64_t* const staged_slots = staged(slots);
  std::vector<BlockId> table(static_cast<std::size_t>(ceil_div(count, 16)));
  std::iota(table.begin(), table.end(), 0);
  const BlockId* tables[] = {table.data()};
  const std::int32_t query_start[] = {0, static_cast<std::int32_t>(count)};
  const std::int32_t seq_lens[] = {static_cast<std::int32_t>(count)};
  std::vector<std::unique_ptr<PlannedAttention>> plans;
  std::vector<LayerHeads> heads;
  std::vector<std::byte*> layers;
  std::byte* next = kv_.data();
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (layer.keeps_state()) {
      heads.push_back({layouts_[i], nullptr});
      layers.push_back(next);
      next += layouts_[i].stride * table.size();
      continue;
    }
    plans.push_back(ops_->plan_attention(count, heads_of(layer)));
    plans.back()->build({.num_seqs = 1,
                         .query_start_loc = query_start,
                         .seq_lens = seq_lens,
                         .block_tables = tables});
    heads.push_back({layouts_[i], plans.back().get()});
    const std::int32_t source = layer.kv_layer();
    layers.push_back(source == kOwnKeys ? next : layers[static_cast<std::size_t>(source)]);
    next += layouts_[i].block_bytes() * table.size();
  }
  std::vector<StateRun> runs;
  append_state_runs(0, 0, query_start[1], 16, table, runs);
  const std::vector<LayerTables> layer_tables(layers.size(), {.slot_mapping = staged_slots,
                                                              .block_tables = tables,
                                                              .state_runs = staged(runs),
                                                              .num_state_runs = std::ssize(runs)});
  ForwardContext ctx = {.ops = *ops_,
                        .arena = arena_,
                        .tokens = {.num_tokens = count,
                                   .token_ids = staged(tokens),
                                   .positions = staged(positions),
                                   .slot_mapping = staged_slots},
                        .attention_plan = plans.front().get(),
                        .kv_layout = layouts_.front(),
                        .kv_layers = layers.data(),
                        .layer_tables = layer_tables.data(),
                        .layer_heads = heads.data(),
                        .activation_mode = mode_};
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count - first));
  std::iota(rows.begin(), rows.end(), first);
  const std::int64_t num_logits = std::ssize(rows) * spec.vocab_size;
  // Hidden states of all rows, then those that are normed, their logits and the best of each.
  const auto floats = [](std::int64_t number) { return Arena::float_bytes(number); };
  const Buffer results =
      device_
          ->allocate(floats(count * spec.hidden_size) +
                     floats(std::ssize(rows) * spec.hidden_size) + floats(num_logits) +
                     Arena::array_bytes<RowBest>(std::ssize(rows)))
          .value();
  Arena places(results.bytes());
  float* const hidden = places.floats(count * spec.hidden_size);
  float* const normed = places.floats(std::ssize(rows) * spec.hidden_size);
  float* const far_logits = places.floats(num_logits);
  RowBest* const best = places.array<RowBest>(std::ssize(rows));
  model_->forward(ctx, hidden);
  model_->logits(ctx, hidden, staged(rows), count - first, normed, far_logits, best);
  std::vector<float> logits(static_cast<std::size_t>(num_logits));
  ops_->download(far_logits, num_logits, logits.data());
  const Status status = ops_->synchronize();
  if (!status.ok()) throw std::runtime_error(status.to_string());
  return logits;
}

}  // namespace quire::test
