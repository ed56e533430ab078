#include "models/spec.h"

#include <utility>

#include <fmt/format.h>

#include "nn/rotary.h"

namespace quire {

std::string TensorNames::name(TensorRole role, std::int64_t layer) const {
  return fmt::format(fmt::runtime(patterns[static_cast<int>(role)]), layer);
}

std::uint64_t DecoderSpec::rotary_bytes(std::int64_t max_positions) const {
  return RotaryTable::bytes(max_positions, static_cast<std::int32_t>(head_dim));
}

Status DecoderSpec::validate(std::string_view where) const {
  // Far above any published model; they keep every product of sizes inside 64 bits.
  constexpr std::int64_t kMaxSize = 1 << 24;
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"the number of layers", num_layers},
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
  if (!(rope_theta > 1 && rope_theta < 1e12)) {
    return Status::bad_model(
        fmt::format("{}: the rope base is {}; expected above 1, below 1e12", where, rope_theta));
  }
  return {};
}

}  // namespace quire
