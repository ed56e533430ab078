#include "models/latent_attention_spec.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/size_check.h"

namespace quire {

std::int64_t LatentAttentionSpec::max_inputs() const { return std::max(query_rank, value_width()); }

std::int64_t LatentAttentionSpec::head_inputs() const { return std::max(key_dims, latent_dims); }

void LatentAttentionSpec::list_tensors(std::int64_t hidden_size,
                                       std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  if (query_rank == 0) {
    tensors.push_back({kQuery, {query_width(), hidden_size}});
  } else {
    tensors.push_back({kQueryDown, {query_rank, hidden_size}});
    if (bias) tensors.push_back({kQueryDownBias, {query_rank}});
    tensors.push_back({kQueryDownNorm, {query_rank}});
    tensors.push_back({kQueryUp, {query_width(), query_rank}});
  }
  tensors.push_back({kLatent, {latent_width(), hidden_size}});
  if (bias) tensors.push_back({kLatentBias, {latent_width()}});
  tensors.push_back({kLatentNorm, {latent_dims}});
  if (split_up) {
    tensors.push_back({kLatentKeys, {num_heads, latent_dims, key_dims}});
    tensors.push_back({kLatentValues, {num_heads, value_dims, latent_dims}});
  } else {
    tensors.push_back({kLatentUp, {num_heads * (key_dims + value_dims), latent_dims}});
  }
  tensors.push_back({kAttentionOutput, {hidden_size, value_width()}});
  if (bias) tensors.push_back({kAttentionBias, {hidden_size}});
}

Status LatentAttentionSpec::validate(std::string_view where) const {
  constexpr std::int64_t kMaxHeads = 1024;
  constexpr std::int64_t kMaxDims = 1024;
  QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"the number of attention heads", num_heads},
                                            {"kv_lora_rank", latent_dims},
                                            {"qk_rope_head_dim", rope_dims},
                                            {"qk_nope_head_dim", key_dims},
                                            {"v_head_dim", value_dims}}));
  if (query_rank != 0) {
    QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"q_lora_rank", query_rank}}));
  }
  if (num_heads > kMaxHeads || std::max({latent_width(), key_dims, value_dims}) > kMaxDims) {
    return Status::bad_model(fmt::format(
        "{}: {} heads, a latent of {} and {}, keys of {}, values of {}; expected up to {} heads "
        "and sizes up to {}",
        where, num_heads, latent_dims, rope_dims, key_dims, value_dims, kMaxHeads, kMaxDims));
  }
  if (latent_dims % 8 != 0 || rope_dims % 2 != 0) {
    return Status::bad_model(
        fmt::format("{}: kv_lora_rank is {} and qk_rope_head_dim {}; expected a multiple of 8 and "
                    "an even number",
                    where, latent_dims, rope_dims));
  }
  if (!(scale > 0 && scale < 1e6)) {
    return Status::bad_model(
        fmt::format("{}: the scale of attention scores is {}; expected above 0", where, scale));
  }
  return {};
}

}  // namespace quire
