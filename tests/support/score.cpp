#include "support/score.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "load/model_bundle.h"

namespace quire::test {

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
  scorer->layout_ = {.dtype = kv_dtype,
                     .block_size = 16,
                     .num_kv_heads = static_cast<std::int32_t>(spec.attention().num_kv_heads),
                     .head_dim = static_cast<std::int32_t>(spec.attention().head_dim)};
  const auto blocks = static_cast<std::uint64_t>(ceil_div(max_tokens, 16));
  QUIRE_ASSIGN_OR_RETURN(scorer->kv_,
                         Buffer::allocate(scorer->layout_.block_bytes() * blocks *
                                          static_cast<std::uint64_t>(spec.num_layers())));
  QUIRE_ASSIGN_OR_RETURN(
      scorer->ops_,
      scorer->device_.make_stream(
          {.max_rows = max_tokens,
           .max_inputs = spec.max_product_inputs(),
           .attention = {.head_dim = static_cast<std::int32_t>(spec.attention().head_dim),
                         .heads_per_kv_head = static_cast<std::int32_t>(
                             spec.attention().num_heads / spec.attention().num_kv_heads),
                         .max_seq_len = max_tokens,
                         .num_kv_heads = static_cast<std::int32_t>(spec.attention().num_kv_heads),
                         .max_num_seqs = max_tokens},
           .experts = spec.experts()}));  // rows whose logits are computed at once
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
  const auto plan = ops_->plan_attention(
      count, {.num_kv_heads = layout_.num_kv_heads,
              .heads_per_kv_head = static_cast<std::int32_t>(spec.attention().num_heads /
                                                             spec.attention().num_kv_heads)});
  plan->build({.num_seqs = 1,
               .query_start_loc = query_start,
               .seq_lens = seq_lens,
               .block_tables = tables});

  std::vector<std::byte*> layers;
  const std::uint64_t layer_bytes = kv_.size() / static_cast<std::uint64_t>(spec.num_layers());
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    layers.push_back(kv_.data() + static_cast<std::uint64_t>(i) * layer_bytes);
  }
  ForwardContext ctx = {.ops = *ops_,
                        .arena = arena_,
                        .tokens = {.num_tokens = count,
                                   .token_ids = tokens.data(),
                                   .positions = positions.data(),
                                   .slot_mapping = slots.data()},
                        .attention_plan = *plan,
                        .kv_layout = layout_,
                        .kv_layers = layers.data(),
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
