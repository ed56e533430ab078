// What layers of one kind leave for later tokens, as numbers: the scheduler's side of a model's KV
// groups. All groups cut a sequence into blocks of the same tokens and draw pages of equal bytes
// from one pool; a block of a group has so many of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/checked.h"

namespace quire {

struct KvGroup {
  // Tokens that a token's layers read, itself the last of them; 0: all before it. What no later
  // token reads is given back while its request runs.
  std::int32_t window = 0;
  std::int32_t pages_per_block = 1;
  // A block has no part of each token but one state of fixed size, which every token replaces: as
  // its last computed token has left it, so that a full block is a snapshot. It serves those who
  // go on after exactly that token, and no token can be removed. Its window is kStateWindow.
  bool state = false;

  // A token reads the state that the one before it has left, and leaves its own.
  static constexpr std::int32_t kStateWindow = 2;

  bool keeps_all() const { return window == 0; }
  // The first block that a token at `position`, or any after it, reads.
  std::int32_t first_block(std::int32_t position, std::int32_t block_size) const {
    return window > 0 && position >= window ? (position - window + 1) / block_size : 0;
  }
  // Blocks that a sequence of `num_tokens` holds at most, while steps compute up to `num_new`
  // tokens of it at once.
  std::int64_t max_blocks(std::int64_t num_tokens, std::int64_t num_new,
                          std::int32_t block_size) const {
    const std::int64_t all = ceil_div(num_tokens, block_size);
    if (keeps_all()) return all;
    return std::min(all, ceil_div(window + num_new - 2, block_size) + 1);
  }

  bool operator==(const KvGroup&) const = default;
};

inline bool keeps_states(std::span<const KvGroup> groups) {
  return std::ranges::any_of(groups, &KvGroup::state);
}

// Pages of a block of all groups: the entries that it has in a block table.
inline std::int32_t pages_per_block(std::span<const KvGroup> groups) {
  std::int32_t pages = 0;
  for (const KvGroup& group : groups) pages += group.pages_per_block;
  return pages;
}

// Pages that a sequence holds at most; as KvGroup::max_blocks.
inline std::int64_t max_pages(std::span<const KvGroup> groups, std::int64_t num_tokens,
                              std::int64_t num_new, std::int32_t block_size) {
  std::int64_t pages = 0;
  for (const KvGroup& group : groups) {
    pages += group.pages_per_block * group.max_blocks(num_tokens, num_new, block_size);
  }
  return pages;
}

// Pages that `num_seqs` sequences of `num_tokens` hold at most, while steps compute up to `num_new`
// tokens of all of them at once.
inline std::int64_t max_pages_of_all(std::span<const KvGroup> groups, std::int64_t num_seqs,
                                     std::int64_t num_tokens, std::int64_t num_new,
                                     std::int32_t block_size) {
  std::int64_t pages = 0;
  for (const KvGroup& group : groups) {
    const std::int64_t all = num_seqs * ceil_div(num_tokens, block_size);
    // The new tokens of a sequence begin anywhere in a block, so that each may touch one more.
    const std::int64_t in_window =
        group.keeps_all()
            ? all
            : num_seqs * (group.max_blocks(num_tokens, 1, block_size) + 1) + num_new / block_size;
    pages += group.pages_per_block * std::min(all, in_window);
  }
  return pages;
}

}  // namespace quire
