#include "models/short_conv_spec.h"

#include <fmt/format.h>

#include "nn/short_conv_block.h"

namespace quire {

std::uint64_t ShortConvSpec::state_bytes(std::int64_t hidden_size) const {
  return ShortConvBlock::state_bytes(hidden_size, static_cast<std::int32_t>(taps));
}

void ShortConvSpec::list_tensors(std::int64_t hidden_size,
                                 std::vector<TensorShape>& tensors) const {
  using enum TensorRole;
  tensors.push_back({kShortConvInput, {3 * hidden_size, hidden_size}});
  if (flat) {
    tensors.push_back({kShortConv, {hidden_size, taps}});
  } else {
    tensors.push_back({kShortConv, {hidden_size, 1, taps}});
  }
  tensors.push_back({kShortConvOutput, {hidden_size, hidden_size}});
  if (!bias) return;
  tensors.push_back({kShortConvInputBias, {3 * hidden_size}});
  tensors.push_back({kShortConvBias, {hidden_size}});
  tensors.push_back({kShortConvOutputBias, {hidden_size}});
}

Status ShortConvSpec::validate(std::string_view where) const {
  if (taps >= 2 && taps <= kMaxConvTaps) return {};
  return Status::bad_model(
      fmt::format("{}: conv_L_cache is {}; expected 2 to {}", where, taps, kMaxConvTaps));
}

}  // namespace quire
