// Finds KV blocks by their content. A block's content depends on its own tokens and on all tokens
// before it, so that blocks form a tree: a node stands for the tokens of one block below the node
// of those before them, and a prompt is matched by walking down from the root. A block that is not
// full is a leaf: where a sequence ended. A prompt's last block is matched by the leaf or the full
// block that begins as it does for the most tokens (find_longest()).
//
// A node has at most one block of each KV group, in pages of the pool. Blocks come and go, and the
// node stays as long as it has one or has descendants: a group that reads only a window needs no
// blocks far back, but the way to the nearer ones leads through there.
//
// A hash only says where to look. A node is equal when its parent is the same node (node ids are
// never used twice) and its tokens are the same, so that no collision, found or made, can give a
// request another's keys and values.
//
// There is a tree for each scope (core/cache_scope.h): below the root, where a node has no parent
// to tell them apart, nodes are equal only within one.
//
// Allocates nothing after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/block_name.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"
#include "core/cache_scope.h"
#include "core/kv_group.h"

namespace quire {

class PrefixIndex {
 public:
  using NodeId = std::uint64_t;
  static constexpr NodeId kRoot = 0;  // before the first token

  // A node that was there when this was made; alive() says whether it still is.
  struct Node {
    NodeId id = kRoot;
    std::int32_t slot = -1;
    bool operator==(const Node&) const = default;
  };

  // Of a pool of so many pages; for as many nodes. `named`: nodes have names (base/block_name.h).
  PrefixIndex(std::int32_t num_pages, std::int32_t block_size, std::span<const KvGroup> groups,
              bool named = false);

  // Bytes that an index needs for each page.
  static std::uint64_t bytes_per_page(std::int32_t block_size, std::span<const KvGroup> groups,
                                      bool named = false);

  // The node of exactly these tokens, one to `block_size`, after `parent`, which is the root or
  // alive and full.
  std::optional<Node> find(Node parent, std::span<const TokenId> tokens,
                           const CacheScope& scope = {}) const;
  // Of the nodes below `parent` that have blocks in all groups, the one that begins as `tokens` do
  // for the most of them; nullopt where none has the first. Where a group keeps states, of those
  // nodes alone whose tokens are all there. Looks at no more than kMaxLooks nodes, the latest
  // first.
  struct Beginning {
    Node node;
    std::int32_t num_tokens = 0;  // that it has in common, at least one
  };
  static constexpr std::int32_t kMaxLooks = 64;
  std::optional<Beginning> find_longest(Node parent, std::span<const TokenId> tokens,
                                        const CacheScope& scope = {}) const;
  // A new one without blocks, of which no equal may exist; nullopt where all nodes are in use. The
  // caller gives it a block or a child, or prunes it.
  std::optional<Node> insert(Node parent, std::span<const TokenId> tokens,
                             const CacheScope& scope = {});
  // It goes, unless it has a block or a child; then its parent does likewise, and so on.
  void prune(Node node);
  bool alive(Node node) const { return slots_[at(node.slot)].id == node.id; }
  Node parent(Node node) const;
  std::int32_t num_tokens(Node node) const { return slots_[at(node.slot)].num_tokens; }
  // Its token of this index; nullopt where it has fewer.
  std::optional<TokenId> token_at(std::optional<Node> node, std::int32_t index) const;
  // The child of an alive node that was inserted last, if that is still there; the root's are not
  // told, for they are of all scopes.
  std::optional<Node> latest_child(Node parent) const;

  // The hash of a node: started with its parent and extended by each of its tokens.
  static std::uint64_t start_hash(NodeId parent, const CacheScope& scope) {
    return parent == kRoot ? mix64(scope.low ^ mix64(scope.high)) : mix64(parent);
  }
  static std::uint64_t extend_hash(std::uint64_t hash, TokenId token) {
    return mix64(hash ^ static_cast<std::uint32_t>(token));
  }
  // Where nodes have names: that of an alive node; of the root of a scope.
  BlockName name(Node node, const CacheScope& scope) const {
    return node.slot == kNone ? root_block_name(scope.high, scope.low) : names_[at(node.slot)];
  }
  const BlockName& name_at(BlockId page) const { return names_[at(owners_[at(page)].slot)]; }

  // Of the node that a page belongs to; a parent's id is less than its children's.
  NodeId id_at(BlockId page) const { return slots_[at(owners_[at(page)].slot)].id; }
  std::uint64_t hash_at(BlockId page) const { return slots_[at(owners_[at(page)].slot)].hash; }

  // The node's block in a group: its pages; empty where it has none.
  std::span<const BlockId> block(Node node, std::size_t group) const;
  bool has_block(Node node, std::size_t group) const {
    return pages_[page_index(node.slot, group)] != kNullBlock;
  }
  // Gives the node, which has none in this group, a block: pages that are in no node yet.
  void put(Node node, std::size_t group, std::span<const BlockId> pages);

  // Whether a page belongs to a node's block.
  bool contains(BlockId page) const { return owners_[at(page)].slot != kNone; }
  // The block that a page belongs to, and its group; contains(page).
  std::span<const BlockId> block_of(BlockId page) const;
  std::size_t group_of(BlockId page) const {
    return static_cast<std::size_t>(owners_[at(page)].group);
  }
  std::int32_t num_tokens_of(BlockId page) const {
    return slots_[at(owners_[at(page)].slot)].num_tokens;
  }
  // That block's content is given up, in all its pages.
  void erase(BlockId page);

  std::int32_t size() const { return size_; }  // nodes

  // All of its state.
  struct Snapshot {
    struct Entry {
      NodeId node = kRoot;
      NodeId parent = kRoot;
      std::int32_t num_tokens = 0;
      CacheScope scope = {};  // zero but below the root
    };
    NodeId last_node = kRoot;     // the last id given; none is given twice
    std::vector<Entry> nodes;     // in order of their ids
    std::vector<TokenId> tokens;  // of all nodes
    std::vector<BlockId> pages;   // of each node, of all groups; kNullBlock where it has no block
  };
  Snapshot snapshot() const;
  // Fills an index that is new. kInvalidArgument naming the node that cannot be.
  Status restore(const Snapshot& snapshot);
  // The node of an id in an index that was restored just now; nullopt if there is none.
  std::optional<Node> restored_node(NodeId id) const;

  // kInternal unless every node is in the chains of its buckets exactly once, has its parent, which
  // is full, counts its children and has a block or a child, and every page knows its node.
  // O(num_pages).
  Status check_invariants() const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Slot {
    NodeId id = kRoot;  // kRoot: in no use
    std::int32_t parent = kNone;
    std::int32_t next = kNone;  // in its bucket, or among those in no use
    std::uint64_t hash = 0;
    CacheScope scope = {};  // zero but below the root
    std::int32_t num_tokens = 0;
    // Among those with its parent's and its first token's hash, later ones before it.
    std::int32_t later = kNone;
    std::int32_t earlier = kNone;
    std::int32_t num_children = 0;
    std::int32_t latest_child = kNone;  // which may be gone, and the slot another's
    std::int32_t num_blocks = 0;
  };
  struct Owner {  // of a page
    std::int32_t slot = kNone;
    std::int32_t group = 0;
  };

  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  // Of a group's first page of a node, in pages_.
  std::size_t page_index(std::int32_t slot, std::size_t group) const {
    return at(slot) * at(pages_per_block_) + at(first_page_[group]);
  }
  std::size_t num_pages_of(std::size_t group) const {
    return at(first_page_[group + 1] - first_page_[group]);
  }
  NodeId id_of_parent(const Slot& slot) const {
    return slot.parent == kNone ? kRoot : slots_[at(slot.parent)].id;
  }
  std::span<const TokenId> tokens_of(std::int32_t slot) const;
  const std::int32_t& bucket(std::uint64_t hash) const {
    return buckets_[hash & (buckets_.size() - 1)];
  }
  std::int32_t& bucket(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  static std::uint64_t hash_of(NodeId parent, const CacheScope& scope,
                               std::span<const TokenId> tokens);
  bool is_below(const Slot& slot, Node parent, const CacheScope& scope) const {
    return id_of_parent(slot) == parent.id && (parent.id != kRoot || slot.scope == scope);
  }
  std::int32_t& first_of(NodeId parent, const CacheScope& scope, TokenId first) {
    return starts_[start_of(parent, scope, first)];
  }
  std::size_t start_of(NodeId parent, const CacheScope& scope, TokenId first) const;
  void remove(std::int32_t slot);
  Status check_starts() const;

  std::int32_t block_size_;
  std::vector<std::int32_t> first_page_;  // [num_groups + 1]: of each group, in a block of all
  std::int32_t pages_per_block_;
  bool whole_nodes_;  // a block is of no use to those who go on within it
  std::vector<Slot> slots_;
  std::vector<TokenId> tokens_;        // [slots][block_size]
  std::vector<BlockName> names_;       // [slots], or none
  std::vector<BlockId> pages_;         // [slots][pages_per_block]
  std::vector<Owner> owners_;          // of each page
  std::vector<std::int32_t> buckets_;  // a power of two of them
  std::vector<std::int32_t> starts_;   // as many; the latest node by parent and first token
  std::int32_t first_unused_ = kNone;
  NodeId last_node_ = kRoot;
  std::int32_t size_ = 0;
};

}  // namespace quire
