#include "models/attention_spec.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "models/size_check.h"

namespace quire {

void AttentionSpec::list_tensors(std::int64_t hidden_size,
                                 std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  const std::int64_t cols = inputs == 0 ? hidden_size : inputs;
  if (kv_layer != kOwnKeys) {
    tensors.push_back({kQuery, {q_width(), cols}});
  } else if (fused_projections) {
    tensors.push_back({kQueryKeyValue, {q_width() + 2 * kv_width(), cols}});
  } else {
    tensors.push_back({kQuery, {q_width(), cols}});
    tensors.push_back({kKey, {kv_width(), cols}});
    if (!values_are_keys) tensors.push_back({kValue, {kv_width(), cols}});
  }
  if (query_key_value_bias && fused_projections) {
    tensors.push_back({kQueryKeyValueBias, {q_width() + 2 * kv_width()}});
  } else if (query_key_value_bias) {
    tensors.push_back({kQueryBias, {q_width()}});
    if (kv_layer == kOwnKeys) {
      tensors.push_back({kKeyBias, {kv_width()}});
      if (!values_are_keys) tensors.push_back({kValueBias, {kv_width()}});
    }
  }
  if (query_key_norm != QueryKeyNorm::kNone && query_key_norm_weights) {
    const bool whole = query_key_norm == QueryKeyNorm::kWhole;
    tensors.push_back({kQueryNorm, {whole ? q_width() : head_dim}});
    if (kv_layer == kOwnKeys) tensors.push_back({kKeyNorm, {whole ? kv_width() : head_dim}});
  }
  if (sinks) tensors.push_back({kAttentionSinks, {num_heads}});
  tensors.push_back({kAttentionOutput, {hidden_size, q_width()}});
  if (output_bias) tensors.push_back({kAttentionBias, {hidden_size}});
}

Status AttentionSpec::validate_sizes(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(check_sizes(where, {{"the number of attention heads", num_heads},
                                            {"the number of key-value heads", num_kv_heads},
                                            {"head_dim", head_dim}}));
  if (num_heads % num_kv_heads != 0) {
    return Status::bad_model(
        fmt::format("{}: {} attention heads are not a multiple of {} key-value heads", where,
                    num_heads, num_kv_heads));
  }
  if (head_dim % 2 != 0 || head_dim > 512) {
    return Status::bad_model(
        fmt::format("{}: head_dim is {}; expected an even number up to 512", where, head_dim));
  }
  return {};
}

Status AttentionSpec::validate(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(validate_sizes(where));
  if (!(scale > 0 && scale < 1e6)) {
    return Status::bad_model(
        fmt::format("{}: the scale of attention scores is {}; expected above 0", where, scale));
  }
  if (query_scale &&
      !(query_scale->interval > 0 && query_scale->growth > -10 && query_scale->growth < 10)) {
    return Status::bad_model(
        fmt::format("{}: queries that grow by {} every {} positions; expected -10 to 10, above 0",
                    where, query_scale->growth, query_scale->interval));
  }
  if (window < 0) {
    return Status::bad_model(
        fmt::format("{}: a sliding window of {} tokens; expected 1 or more", where, window));
  }
  if (chunk < 0) {
    return Status::bad_model(
        fmt::format("{}: attention in chunks of {} tokens; expected 1 or more", where, chunk));
  }
  if (!(soft_cap >= 0 && soft_cap < 1e6)) {
    return Status::bad_model(
        fmt::format("{}: the soft cap of attention scores is {}; expected above 0, below 1e6",
                    where, soft_cap));
  }
  if (!(qkv_limit >= 0 && qkv_limit < 1e9)) {
    return Status::bad_model(fmt::format(
        "{}: queries, keys and values are limited to {}; expected above 0", where, qkv_limit));
  }
  assert(!fused_by_head || fused_projections);
  assert(chunk == 0 || window == 0);
  assert(alibi_slopes.empty() || std::ssize(alibi_slopes) == num_heads);
  return {};
}

std::vector<float> alibi_slopes(std::int64_t num_heads, double max_bias) {
  const auto power =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(num_heads)));
  std::vector<float> slopes;
  for (std::int64_t i = 0; i < num_heads; ++i) {
    // 2, 4, 6, ..., then 1, 3, 5, ...
    const std::int64_t number = power == num_heads   ? i + 1
                                : 2 * i + 2 <= power ? 2 * i + 2
                                                     : 2 * i + 1 - power;
    slopes.push_back(static_cast<float>(
        std::exp2(-max_bias * static_cast<double>(number) / static_cast<double>(power))));
  }
  return slopes;
}

}  // namespace quire
