// A gated short convolution of one layer as data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/attention_spec.h"
#include "models/tensor_names.h"

namespace quire {

// What nn/short_conv_block.h computes, over as many channels as the hidden size. It leaves nothing
// of single tokens for later ones, but a state of fixed size.
struct ShortConvSpec {
  static constexpr std::int32_t rope = kNoRope;

  std::int64_t taps = 0;  // tokens that the convolution sees, its own the last of them
  bool bias = false;      // of all three
  bool flat = false;      // the checkpoint has the convolution as a matrix, else as [][1][taps]

  // As of other mixers: it has no keys.
  KvHeads kv_heads() const { return {}; }
  std::int32_t kept_tokens() const { return 0; }
  std::int64_t max_inputs() const { return 0; }  // the hidden size

  std::uint64_t state_bytes(std::int64_t hidden_size) const;
  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;
  Status validate(std::string_view where) const;

  bool operator==(const ShortConvSpec&) const = default;
};

}  // namespace quire
