#include "support/score.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "load/model_bundle.h"

namespace quire::test {
namespace {

AttentionHeads heads_of(const LayerSpec& layer) {
  const KvHeads heads = layer.kv_heads();
  return {.num_kv_heads = static_cast<std::int32_t>(heads.num_kv_heads),
          .heads_per_kv_head = static_cast<std::int32_t>(heads.num_heads / heads.num_kv_heads)};
}

}  // namespace

Result<std::unique_ptr<Scorer>> Scorer::open(const std::string& path, IsaLevel level,
                                             ActivationMode mode, DType kv_dtype,
                                             std::int64_t max_tokens,
                                             LoadQuantization quantization) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(path, ""));
  auto scorer = std::unique_ptr<Scorer>(new Scorer(level));
  QUIRE_ASSIGN_OR_RETURN(scorer->model_, Model::load(bundle.spec, *bundle.weights, max_tokens,
                                                     scorer->device_, nullptr, quantization));
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
  QUIRE_ASSIGN_OR_RETURN(scorer->kv_, Buffer::allocate(kv_bytes));
  QUIRE_ASSIGN_OR_RETURN(scorer->ops_,
                         scorer->device_.make_stream({.max_rows = max_tokens,
                                                      .max_inputs = spec.max_product_inputs(),
                                                      .attention = sizes,
                                                      .experts = spec.experts(),
                                                      .head_products = spec.head_products()}));
  QUIRE_ASSIGN_OR_RETURN(scorer->activations_,
                         Buffer::allocate(Model::arena_bytes(spec, max_tokens)));
  scorer->arena_ = Arena(scorer->activations_.bytes());
  return scorer;
}

std::vector<float> Scorer::score(const std::vector<TokenId>& tokens, std::int64_t first) {
  const DecoderSpec& spec = model_->spec();
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::int64_t> slots(positions.begin(), positions.end());
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
  const std::vector<LayerTables> layer_tables(layers.size(), {.slot_mapping = slots.data(),
                                                              .block_tables = tables,
                                                              .state_runs = runs.data(),
                                                              .num_state_runs = std::ssize(runs)});
  ForwardContext ctx = {.ops = *ops_,
                        .arena = arena_,
                        .tokens = {.num_tokens = count,
                                   .token_ids = tokens.data(),
                                   .positions = positions.data(),
                                   .slot_mapping = slots.data()},
                        .attention_plan = *plans.front(),
                        .kv_layout = layouts_.front(),
                        .kv_layers = layers.data(),
                        .layer_tables = layer_tables.data(),
                        .layer_heads = heads.data(),
                        .activation_mode = mode_};
  std::vector<float> hidden(static_cast<std::size_t>(count * spec.hidden_size));
  model_->forward(ctx, hidden.data());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count - first));
  std::iota(rows.begin(), rows.end(), first);
  std::vector<float> normed(rows.size() * static_cast<std::size_t>(spec.hidden_size));
  std::vector<float> logits(rows.size() * static_cast<std::size_t>(spec.vocab_size));
  std::vector<RowBest> best(rows.size());
  model_->logits(ctx, hidden.data(), rows.data(), count - first, normed.data(), logits.data(),
                 best.data());
  return logits;
}

}  // namespace quire::test
