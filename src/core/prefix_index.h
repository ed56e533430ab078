// Finds KV blocks by what they hold. A block's keys and values depend on its own tokens and on all
// tokens before it, so that full blocks form a tree: each is a node below the node of the block
// before it, and a prompt is matched by walking down from the root.
//
// A hash only says where to look. A node is equal when its parent is the same node (node ids are
// never used twice) and its tokens are the same, so that no collision, found or made, can give a
// request another's keys and values.
//
// Allocates nothing after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace quire {

class PrefixIndex {
 public:
  using NodeId = std::uint64_t;
  static constexpr NodeId kRoot = 0;  // before the first token

  PrefixIndex(std::int32_t num_blocks, std::int32_t block_size);

  // Bytes that an index takes for each block.
  static std::uint64_t bytes_per_block(std::int32_t block_size);

  struct Found {
    BlockId block_id = 0;
    NodeId node = kRoot;
  };
  // The block that holds these `block_size` tokens after `parent`.
  std::optional<Found> find(NodeId parent, std::span<const TokenId> tokens) const;

  // `block_id`, which is in no node yet, holds these tokens after `parent`; no equal node may
  // exist.
  NodeId insert(BlockId block_id, NodeId parent, std::span<const TokenId> tokens);
  // The block's content is given up. Nodes below can no longer be reached.
  void erase(BlockId block_id);

  bool contains(BlockId block_id) const { return entry(block_id).node != kRoot; }
  std::int32_t size() const { return size_; }

  // All of its state.
  struct Snapshot {
    struct Node {
      BlockId block_id = 0;
      NodeId node = kRoot;
      NodeId parent = kRoot;
    };
    NodeId last_node = kRoot;     // the last id given; none is given twice
    std::vector<Node> nodes;      // in order of their ids
    std::vector<TokenId> tokens;  // of each node, block_size
  };
  Snapshot snapshot() const;
  // Fills an index that is new. kInvalidArgument naming the node that cannot be.
  Status restore(const Snapshot& snapshot);

  // kInternal unless every node is in the chain of its bucket exactly once. O(num_blocks).
  Status check_invariants() const;

 private:
  static constexpr BlockId kNone = -1;
  struct Entry {  // of each block
    NodeId node = kRoot;
    NodeId parent = kRoot;
    std::uint64_t hash = 0;
    BlockId next = kNone;  // in its bucket
  };

  const Entry& entry(BlockId block_id) const {
    return entries_[static_cast<std::size_t>(block_id)];
  }
  std::span<const TokenId> tokens_of(BlockId block_id) const;
  const BlockId& bucket(std::uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  BlockId& bucket(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }

  std::int32_t block_size_;
  std::vector<Entry> entries_;
  std::vector<TokenId> tokens_;   // [num_blocks][block_size]
  std::vector<BlockId> buckets_;  // a power of two of them
  NodeId last_node_ = kRoot;
  std::int32_t size_ = 0;
};

}  // namespace quire
