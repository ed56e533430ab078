#include "core/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include <fmt/format.h>

#include "base/random.h"

namespace quire {
namespace {

std::uint64_t hash_of(PrefixIndex::NodeId parent, std::span<const TokenId> tokens) {
  std::uint64_t hash = mix64(parent);
  for (const TokenId token : tokens) hash = mix64(hash ^ static_cast<std::uint32_t>(token));
  return hash;
}

std::size_t num_buckets(std::int32_t num_blocks) {
  return std::bit_ceil(static_cast<std::size_t>(num_blocks));
}

}  // namespace

PrefixIndex::PrefixIndex(std::int32_t num_blocks, std::int32_t block_size)
    : block_size_(block_size),
      entries_(static_cast<std::size_t>(num_blocks)),
      tokens_(static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(block_size)),
      buckets_(num_buckets(num_blocks), kNone) {}

std::uint64_t PrefixIndex::bytes_per_block(std::int32_t block_size) {
  // Buckets: between one and two a block.
  return sizeof(Entry) + static_cast<std::uint64_t>(block_size) * sizeof(TokenId) +
         2 * sizeof(BlockId);
}

std::span<const TokenId> PrefixIndex::tokens_of(BlockId block_id) const {
  const auto size = static_cast<std::size_t>(block_size_);
  return std::span(tokens_).subspan(static_cast<std::size_t>(block_id) * size, size);
}

std::optional<PrefixIndex::Found> PrefixIndex::find(NodeId parent,
                                                    std::span<const TokenId> tokens) const {
  assert(std::ssize(tokens) == block_size_);
  const std::uint64_t hash = hash_of(parent, tokens);
  for (BlockId id = bucket(hash); id != kNone; id = entry(id).next) {
    const Entry& each = entry(id);
    if (each.hash == hash && each.parent == parent && std::ranges::equal(tokens_of(id), tokens)) {
      return Found{id, each.node};
    }
  }
  return std::nullopt;
}

PrefixIndex::NodeId PrefixIndex::insert(BlockId block_id, NodeId parent,
                                        std::span<const TokenId> tokens) {
  assert(!contains(block_id) && !find(parent, tokens));
  const std::uint64_t hash = hash_of(parent, tokens);
  entries_[static_cast<std::size_t>(block_id)] = {
      .node = ++last_node_, .parent = parent, .hash = hash, .next = bucket(hash)};
  bucket(hash) = block_id;
  std::ranges::copy(tokens, tokens_.begin() + std::int64_t{block_id} * block_size_);
  ++size_;
  return last_node_;
}

void PrefixIndex::erase(BlockId block_id) {
  assert(contains(block_id));
  Entry& gone = entries_[static_cast<std::size_t>(block_id)];
  BlockId* link = &bucket(gone.hash);
  while (*link != block_id) link = &entries_[static_cast<std::size_t>(*link)].next;
  *link = gone.next;
  gone = {};
  --size_;
}

PrefixIndex::Snapshot PrefixIndex::snapshot() const {
  Snapshot snapshot;
  snapshot.last_node = last_node_;
  snapshot.nodes.reserve(static_cast<std::size_t>(size_));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].node == kRoot) continue;
    snapshot.nodes.push_back({static_cast<BlockId>(i), entries_[i].node, entries_[i].parent});
  }
  std::ranges::sort(snapshot.nodes, {}, &Snapshot::Node::node);
  snapshot.tokens.reserve(snapshot.nodes.size() * static_cast<std::size_t>(block_size_));
  for (const Snapshot::Node& each : snapshot.nodes) {
    const auto tokens = tokens_of(each.block_id);
    snapshot.tokens.insert(snapshot.tokens.end(), tokens.begin(), tokens.end());
  }
  return snapshot;
}

Status PrefixIndex::restore(const Snapshot& snapshot) {
  const auto block_size = static_cast<std::size_t>(block_size_);
  if (snapshot.tokens.size() != snapshot.nodes.size() * block_size) {
    return Status::invalid_argument(fmt::format("the prefix index has {} nodes and {} tokens",
                                                snapshot.nodes.size(), snapshot.tokens.size()));
  }
  std::span<const TokenId> tokens = snapshot.tokens;
  for (const Snapshot::Node& each : snapshot.nodes) {
    const auto own = tokens.first(block_size);
    tokens = tokens.subspan(block_size);
    if (each.block_id < 0 || each.block_id >= std::ssize(entries_) || contains(each.block_id) ||
        each.node <= last_node_ || each.node > snapshot.last_node || each.parent >= each.node ||
        find(each.parent, own)) {
      return Status::invalid_argument(
          fmt::format("node {} of block {} below node {} cannot be in the prefix index", each.node,
                      each.block_id, each.parent));
    }
    last_node_ = each.node - 1;
    insert(each.block_id, each.parent, own);
  }
  last_node_ = snapshot.last_node;
  return {};
}

Status PrefixIndex::check_invariants() const {
  std::int32_t num_chained = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (BlockId id = buckets_[i]; id != kNone; id = entry(id).next) {
      const Entry& each = entry(id);
      if (each.node == kRoot || (each.hash & (buckets_.size() - 1)) != i) {
        return Status::internal(fmt::format("block {} is in the wrong chain of the index", id));
      }
      if (each.hash != hash_of(each.parent, tokens_of(id))) {
        return Status::internal(fmt::format("block {}: the index has another hash", id));
      }
      if (++num_chained > size_) return Status::internal("a chain of the index has a cycle");
    }
  }
  const auto num_nodes =
      std::ranges::count_if(entries_, [](const Entry& each) { return each.node != kRoot; });
  if (num_chained != size_ || num_nodes != size_) {
    return Status::internal(fmt::format("the index counts {} nodes, {} are chained, {} exist",
                                        size_, num_chained, num_nodes));
  }
  return {};
}

}  // namespace quire
