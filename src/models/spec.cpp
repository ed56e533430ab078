#include "models/spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "nn/rotary.h"

namespace quire {
namespace {

Status validate_rope(const RopeSpec& rope, std::int64_t head_dim, std::string_view where) {
  if (!(rope.theta > 1 && rope.theta < 1e12)) {
    return Status::bad_model(
        fmt::format("{}: the rope base is {}; expected above 1, below 1e12", where, rope.theta));
  }
  const auto check = [&](std::string_view name, double value, double low) {
    if (value >= low && value <= 1e9) return Status();
    return Status::bad_model(
        fmt::format("{}: rope scaling: {} is {}; expected {} to 1e9", where, name, value, low));
  };
  switch (rope.scaling) {
    case RopeScaling::kNone:
      return {};
    case RopeScaling::kLinear:
      return check("factor", rope.factor, 1e-3);
    case RopeScaling::kDynamic:
      QUIRE_RETURN_IF_ERROR(check("head_dim", static_cast<double>(head_dim), 4));
      break;
    case RopeScaling::kLlama3:
      QUIRE_RETURN_IF_ERROR(check("low_freq_factor", rope.low_freq_factor, 1e-3));
      if (!(rope.high_freq_factor > rope.low_freq_factor)) {
        return Status::bad_model(
            fmt::format("{}: rope scaling: high_freq_factor {} is not above low_freq_factor {}",
                        where, rope.high_freq_factor, rope.low_freq_factor));
      }
      break;
    case RopeScaling::kYarn:
      QUIRE_RETURN_IF_ERROR(check("beta_slow", rope.beta_slow, 1e-3));
      QUIRE_RETURN_IF_ERROR(check("beta_fast", rope.beta_fast, rope.beta_slow));
      QUIRE_RETURN_IF_ERROR(check("attention_factor", rope.attention_factor, 1e-3));
      break;
    case RopeScaling::kFactors:
      if (static_cast<std::int64_t>(rope.factors.size()) != head_dim / 2 ||
          !std::all_of(rope.factors.begin(), rope.factors.end(),
                       [](float f) { return std::isfinite(f) && f > 0; })) {
        return Status::bad_model(
            fmt::format("{}: rope scaling: expected {} factors above 0", where, head_dim / 2));
      }
      return {};
  }
  QUIRE_RETURN_IF_ERROR(check("factor", rope.factor, 1.0));
  return check("original_max_position_embeddings", rope.original_max_positions, 1.0);
}

}  // namespace

bool DecoderSpec::has(TensorRole role) const {
  switch (role) {
    case TensorRole::kOutput:
      return !tie_word_embeddings;
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return query_key_value_bias;
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return query_key_norm;
    case TensorRole::kAttentionBias:
      return attention_output_bias;
    case TensorRole::kAttentionOutputNorm:
    case TensorRole::kMlpOutputNorm:
      return sandwich_norm;
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return mlp_bias;
    default:
      return true;
  }
}

std::uint64_t DecoderSpec::rotary_bytes(std::int64_t max_positions) const {
  return ropes.size() * RotaryTable::bytes(max_positions, static_cast<std::int32_t>(head_dim));
}

Status DecoderSpec::validate_sizes(std::string_view where) const {
  // Far above any published model; they keep every product of sizes inside 64 bits.
  constexpr std::int64_t kMaxSize = 1 << 24;
  constexpr std::int64_t kMaxLayers = 1 << 14;
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"hidden_size", hidden_size},
      {"intermediate_size", intermediate_size},
      {"the number of attention heads", num_heads},
      {"the number of key-value heads", num_kv_heads},
      {"head_dim", head_dim},
      {"vocab_size", vocab_size},
      {"the context length", max_position_embeddings},
  };
  for (const auto& [name, value] : sizes) {
    if (value <= 0 || value > kMaxSize) {
      return Status::bad_model(
          fmt::format("{}: {} is {}; expected 1 to {}", where, name, value, kMaxSize));
    }
  }
  if (num_layers <= 0 || num_layers > kMaxLayers) {
    return Status::bad_model(fmt::format("{}: the number of layers is {}; expected 1 to {}", where,
                                         num_layers, kMaxLayers));
  }
  if (num_heads % num_kv_heads != 0) {
    return Status::bad_model(
        fmt::format("{}: {} attention heads are not a multiple of {} key-value heads", where,
                    num_heads, num_kv_heads));
  }
  if (head_dim % 2 != 0 || head_dim > 512) {
    return Status::bad_model(
        fmt::format("{}: head_dim is {}; expected an even number up to 512", where, head_dim));
  }
  if (!(rms_norm_eps > 0 && rms_norm_eps < 1)) {
    return Status::bad_model(fmt::format(
        "{}: the RMS norm's epsilon is {}; expected above 0, below 1", where, rms_norm_eps));
  }
  return {};
}

Status DecoderSpec::validate(std::string_view where) const {
  QUIRE_RETURN_IF_ERROR(validate_sizes(where));
  if (!(attention_scale > 0 && attention_scale < 1e6)) {
    return Status::bad_model(fmt::format(
        "{}: the scale of attention scores is {}; expected above 0", where, attention_scale));
  }
  for (const RopeSpec& rope : ropes) {
    QUIRE_RETURN_IF_ERROR(validate_rope(rope, head_dim, where));
  }
  for (const LayerSpec& layer : layers) {
    if (layer.window < 0) {
      return Status::bad_model(fmt::format("{}: a sliding window of {} tokens; expected 1 or more",
                                           where, layer.window));
    }
  }
  return {};
}

}  // namespace quire
