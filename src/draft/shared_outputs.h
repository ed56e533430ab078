// Outputs of requests that have ended, for those that run: text in two halves, of which the older
// one is thrown away when the newer is full. So at least half of the room holds the latest.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "draft/token_index.h"

namespace quire {

class SharedOutputs {
 public:
  // Room for so many tokens, and so many outputs at most; none of either: nothing is kept.
  SharedOutputs(std::size_t max_tokens, std::size_t max_outputs,
                std::span<const std::int32_t> grams);

  // An output that is longer than a half gives its end.
  void add(std::span<const TokenId> output);

  struct Half {
    std::vector<TokenId> text;  // outputs, kSeparator after each
    std::size_t num_outputs = 0;
    TokenIndex index;
  };
  static constexpr TokenId kSeparator = -1;
  // The newer one first.
  const Half& half(std::size_t index) const { return halves_[(newer_ + index) % 2]; }

 private:
  std::size_t max_tokens_;  // of a half
  std::size_t max_outputs_;
  std::array<Half, 2> halves_;
  std::size_t newer_ = 0;
};

}  // namespace quire
