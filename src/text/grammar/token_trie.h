// The tokens of a vocabulary as a tree of bytes, laid out in the order of a walk. Internal to
// src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire {

class TokenTrie {
 public:
  struct Node {
    std::uint32_t end = 0;    // of the nodes below, which follow this one
    TokenId token = -1;       // whose bytes end here, or -1; the first of those that are alike
    std::uint16_t depth = 0;  // bytes up to here, this one among them: 1 or more
    std::uint8_t byte = 0;
  };

  TokenTrie() = default;
  // Bytes (at least one, at most 65535) with their tokens, sorted.
  explicit TokenTrie(std::span<const std::pair<std::string_view, TokenId>> tokens);

  std::span<const Node> nodes() const { return nodes_; }
  std::size_t max_depth() const { return max_depth_; }

  // Tokens with the same bytes as `token`, the first of them, as pairs (token, other).
  bool has_alike() const { return !alike_.empty(); }
  std::span<const std::pair<TokenId, TokenId>> alike(TokenId token) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::pair<TokenId, TokenId>> alike_;  // sorted
  std::size_t max_depth_ = 0;
};

}  // namespace quire
