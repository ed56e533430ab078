#include "text/grammar/token_trie.h"

#include <algorithm>

namespace quire {

TokenTrie::TokenTrie(std::span<const std::pair<std::string_view, TokenId>> tokens) {
  std::vector<std::size_t> path;  // nodes of the bytes of the token before
  std::string_view before;
  for (const auto& [bytes, token] : tokens) {
    if (!path.empty() && bytes == before) {
      alike_.emplace_back(nodes_[path.back()].token, token);
      continue;
    }
    std::size_t common = 0;
    while (common < path.size() && common < bytes.size() && bytes[common] == before[common]) {
      ++common;
    }
    const auto end = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t i = common; i < path.size(); ++i) nodes_[path[i]].end = end;
    path.resize(common);
    for (std::size_t i = common; i < bytes.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({.end = 0,
                        .token = -1,
                        .depth = static_cast<std::uint16_t>(i + 1),
                        .byte = static_cast<std::uint8_t>(bytes[i])});
    }
    nodes_.back().token = token;
    max_depth_ = std::max(max_depth_, bytes.size());
    before = bytes;
  }
  for (const std::size_t node : path) nodes_[node].end = static_cast<std::uint32_t>(nodes_.size());
  std::sort(alike_.begin(), alike_.end());
  nodes_.shrink_to_fit();
}

std::span<const std::pair<TokenId, TokenId>> TokenTrie::alike(TokenId token) const {
  const auto range =
      std::equal_range(alike_.begin(), alike_.end(), std::pair(token, TokenId{0}),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  return {range.first, range.second};
}

}  // namespace quire
