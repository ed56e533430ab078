#include "base/block_name.h"

#include <algorithm>
#include <vector>

#include "base/sha256.h"

namespace quire {
// Shorter than any block's, so that no block can have it.
BlockName root_block_name(std::uint64_t scope_high, std::uint64_t scope_low) {
  const std::array<std::uint64_t, 2> scope = {scope_high, scope_low};
  return sha256(std::as_bytes(std::span(scope)));
}

BlockName next_block_name(const BlockName& before, std::span<const TokenId> tokens) {
  constexpr std::size_t kUsual = 64;  // tokens of a block, at most
  const auto head = std::as_bytes(std::span(before));
  const auto tail = std::as_bytes(tokens);
  const auto name_of = [&](std::span<std::byte> bytes) {
    std::ranges::copy(head, bytes.begin());
    std::ranges::copy(tail, bytes.begin() + std::ssize(head));
    return sha256(bytes);
  };
  std::array<std::byte, sizeof(BlockName) + kUsual * sizeof(TokenId)> usual;
  if (tokens.size() <= kUsual) return name_of(std::span(usual).first(head.size() + tail.size()));
  std::vector<std::byte> bytes(head.size() + tail.size());
  return name_of(bytes);
}

}  // namespace quire
