#include "core/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include <fmt/format.h>

namespace quire {
namespace {

std::size_t num_buckets(std::int32_t num_nodes) {
  return std::bit_ceil(static_cast<std::size_t>(num_nodes));
}

std::vector<std::int32_t> first_pages(std::span<const KvGroup> groups) {
  std::vector<std::int32_t> first = {0};
  for (const KvGroup& group : groups) first.push_back(first.back() + group.pages_per_block);
  return first;
}

}  // namespace

std::uint64_t PrefixIndex::hash_of(NodeId parent, const CacheScope& scope,
                                   std::span<const TokenId> tokens) {
  std::uint64_t hash = start_hash(parent, scope);
  for (const TokenId token : tokens) hash = extend_hash(hash, token);
  return hash;
}

PrefixIndex::PrefixIndex(std::int32_t num_pages, std::int32_t block_size,
                         std::span<const KvGroup> groups, bool named)
    : block_size_(block_size),
      first_page_(first_pages(groups)),
      pages_per_block_(first_page_.back()),
      whole_nodes_(keeps_states(groups)),
      slots_(at(num_pages)),
      tokens_(at(num_pages) * at(block_size)),
      names_(named ? at(num_pages) : 0),
      pages_(at(num_pages) * at(pages_per_block_), kNullBlock),
      owners_(at(num_pages)),
      buckets_(num_buckets(num_pages), kNone),
      starts_(buckets_.size(), kNone) {
  for (std::int32_t slot = num_pages - 1; slot >= 0; --slot) {
    slots_[at(slot)].next = first_unused_;
    first_unused_ = slot;
  }
}

std::uint64_t PrefixIndex::bytes_per_page(std::int32_t block_size, std::span<const KvGroup> groups,
                                          bool named) {
  // Buckets: between one and two a node, of two kinds.
  return sizeof(Slot) + (named ? sizeof(BlockName) : 0) +
         static_cast<std::uint64_t>(block_size) * sizeof(TokenId) +
         static_cast<std::uint64_t>(quire::pages_per_block(groups)) * sizeof(BlockId) +
         sizeof(Owner) + 4 * sizeof(std::int32_t);
}

std::size_t PrefixIndex::start_of(NodeId parent, const CacheScope& scope, TokenId first) const {
  return hash_of(parent, scope, std::span(&first, 1)) & (starts_.size() - 1);
}

std::span<const TokenId> PrefixIndex::tokens_of(std::int32_t slot) const {
  return std::span(tokens_).subspan(at(slot) * at(block_size_), at(slots_[at(slot)].num_tokens));
}

std::optional<PrefixIndex::Node> PrefixIndex::find(Node parent, std::span<const TokenId> tokens,
                                                   const CacheScope& scope) const {
  assert(!tokens.empty() && std::ssize(tokens) <= block_size_);
  const std::uint64_t hash = hash_of(parent.id, scope, tokens);
  for (std::int32_t slot = bucket(hash); slot != kNone; slot = slots_[at(slot)].next) {
    const Slot& each = slots_[at(slot)];
    if (each.hash == hash && is_below(each, parent, scope) &&
        std::ranges::equal(tokens_of(slot), tokens)) {
      return Node{each.id, slot};
    }
  }
  return std::nullopt;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::find_longest(Node parent,
                                                                std::span<const TokenId> tokens,
                                                                const CacheScope& scope) const {
  if (tokens.empty() || starts_.empty()) return std::nullopt;
  std::optional<Beginning> best;
  std::int32_t num_looks = 0;
  for (std::int32_t slot = starts_[start_of(parent.id, scope, tokens[0])];
       slot != kNone && num_looks < kMaxLooks; slot = slots_[at(slot)].earlier, ++num_looks) {
    const Slot& each = slots_[at(slot)];
    if (!is_below(each, parent, scope) || at(each.num_blocks) + 1 != first_page_.size()) continue;
    const auto own = tokens_of(slot);
    const auto end = std::ranges::mismatch(own, tokens).in1;
    if (whole_nodes_ && end != own.end()) continue;
    const auto num_tokens = static_cast<std::int32_t>(end - own.begin());
    if (num_tokens > (best ? best->num_tokens : 0)) best = Beginning{{each.id, slot}, num_tokens};
  }
  return best;
}

std::optional<PrefixIndex::Node> PrefixIndex::insert(Node parent, std::span<const TokenId> tokens,
                                                     const CacheScope& scope) {
  assert(!find(parent, tokens, scope));
  assert(parent.slot == kNone || num_tokens(parent) == block_size_);
  if (first_unused_ == kNone) return std::nullopt;
  const std::int32_t slot = first_unused_;
  first_unused_ = slots_[at(slot)].next;
  const std::uint64_t hash = hash_of(parent.id, scope, tokens);
  std::int32_t& latest = first_of(parent.id, scope, tokens[0]);
  slots_[at(slot)] = {.id = ++last_node_,
                      .parent = parent.slot,
                      .next = bucket(hash),
                      .hash = hash,
                      .scope = parent.id == kRoot ? scope : CacheScope{},
                      .num_tokens = static_cast<std::int32_t>(tokens.size()),
                      .earlier = latest};
  bucket(hash) = slot;
  if (latest != kNone) slots_[at(latest)].later = slot;
  latest = slot;
  if (parent.slot != kNone) {
    ++slots_[at(parent.slot)].num_children;
    slots_[at(parent.slot)].latest_child = slot;
  }
  std::ranges::copy(tokens, tokens_.begin() + std::int64_t{slot} * block_size_);
  if (!names_.empty()) names_[at(slot)] = next_block_name(name(parent, scope), tokens);
  ++size_;
  return Node{last_node_, slot};
}

void PrefixIndex::prune(Node node) {
  for (std::int32_t slot = node.slot; slot != kNone;) {
    const Slot& each = slots_[at(slot)];
    if (each.id == kRoot || each.num_children > 0 || each.num_blocks > 0) return;
    const std::int32_t parent = each.parent;
    remove(slot);
    slot = parent;
  }
}

void PrefixIndex::remove(std::int32_t slot) {
  Slot& gone = slots_[at(slot)];
  std::int32_t* link = &bucket(gone.hash);
  while (*link != slot) link = &slots_[at(*link)].next;
  *link = gone.next;
  (gone.later == kNone ? first_of(id_of_parent(gone), gone.scope, tokens_of(slot)[0])
                       : slots_[at(gone.later)].earlier) = gone.earlier;
  if (gone.earlier != kNone) slots_[at(gone.earlier)].later = gone.later;
  if (gone.parent != kNone) --slots_[at(gone.parent)].num_children;
  gone = {.next = first_unused_};
  first_unused_ = slot;
  --size_;
}

PrefixIndex::Node PrefixIndex::parent(Node node) const {
  const Slot& slot = slots_[at(node.slot)];
  return {id_of_parent(slot), slot.parent};
}

std::optional<TokenId> PrefixIndex::token_at(std::optional<Node> node, std::int32_t index) const {
  if (!node || index >= num_tokens(*node)) return std::nullopt;
  return tokens_of(node->slot)[at(index)];
}

std::optional<PrefixIndex::Node> PrefixIndex::latest_child(Node parent) const {
  if (parent.slot == kNone) return std::nullopt;
  const std::int32_t slot = slots_[at(parent.slot)].latest_child;
  if (slot == kNone || slots_[at(slot)].id == kRoot || slots_[at(slot)].parent != parent.slot) {
    return std::nullopt;
  }
  return Node{slots_[at(slot)].id, slot};
}

std::span<const BlockId> PrefixIndex::block(Node node, std::size_t group) const {
  if (!has_block(node, group)) return {};
  return std::span(pages_).subspan(page_index(node.slot, group), num_pages_of(group));
}

void PrefixIndex::put(Node node, std::size_t group, std::span<const BlockId> pages) {
  assert(!has_block(node, group) && pages.size() == num_pages_of(group));
  std::ranges::copy(pages,
                    pages_.begin() + static_cast<std::ptrdiff_t>(page_index(node.slot, group)));
  for (const BlockId page : pages) {
    assert(!contains(page));
    owners_[at(page)] = {node.slot, static_cast<std::int32_t>(group)};
  }
  ++slots_[at(node.slot)].num_blocks;
}

std::span<const BlockId> PrefixIndex::block_of(BlockId page) const {
  const Owner& owner = owners_[at(page)];
  const auto group = static_cast<std::size_t>(owner.group);
  return std::span(pages_).subspan(page_index(owner.slot, group), num_pages_of(group));
}

void PrefixIndex::erase(BlockId page) {
  assert(contains(page));
  const auto [slot, group] = owners_[at(page)];
  const std::size_t first = page_index(slot, static_cast<std::size_t>(group));
  for (BlockId& each :
       std::span(pages_).subspan(first, num_pages_of(static_cast<std::size_t>(group)))) {
    owners_[at(each)] = {};
    each = kNullBlock;
  }
  --slots_[at(slot)].num_blocks;
  prune({slots_[at(slot)].id, slot});
}

PrefixIndex::Snapshot PrefixIndex::snapshot() const {
  Snapshot snapshot;
  snapshot.last_node = last_node_;
  std::vector<std::int32_t> used;
  used.reserve(at(size_));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].id != kRoot) used.push_back(static_cast<std::int32_t>(i));
  }
  std::ranges::sort(used, {}, [&](std::int32_t slot) { return slots_[at(slot)].id; });
  for (const std::int32_t slot : used) {
    const Slot& each = slots_[at(slot)];
    snapshot.nodes.push_back({each.id, id_of_parent(each), each.num_tokens, each.scope});
    const auto tokens = tokens_of(slot);
    snapshot.tokens.insert(snapshot.tokens.end(), tokens.begin(), tokens.end());
    const auto pages = std::span(pages_).subspan(page_index(slot, 0), at(pages_per_block_));
    snapshot.pages.insert(snapshot.pages.end(), pages.begin(), pages.end());
  }
  return snapshot;
}

// Nodes get their slots in the order of their ids.
std::optional<PrefixIndex::Node> PrefixIndex::restored_node(NodeId id) const {
  const auto end = slots_.begin() + size_;
  const auto found = std::ranges::lower_bound(slots_.begin(), end, id, {}, &Slot::id);
  if (found == end || found->id != id) return std::nullopt;
  return Node{id, static_cast<std::int32_t>(found - slots_.begin())};
}

Status PrefixIndex::restore(const Snapshot& snapshot) {
  const std::size_t count = snapshot.nodes.size();
  std::size_t num_tokens = 0;
  for (const Snapshot::Entry& each : snapshot.nodes) {
    if (each.num_tokens < 1 || each.num_tokens > block_size_) {
      return Status::invalid_argument(
          fmt::format("node {} of the prefix index has {} tokens", each.node, each.num_tokens));
    }
    num_tokens += at(each.num_tokens);
  }
  if (snapshot.tokens.size() != num_tokens ||
      snapshot.pages.size() != count * at(pages_per_block_)) {
    return Status::invalid_argument(
        fmt::format("the prefix index has {} nodes, {} tokens and {} pages", count,
                    snapshot.tokens.size(), snapshot.pages.size()));
  }
  const auto usable = [&](BlockId page) {
    return page >= 0 && page < std::ssize(owners_) && !contains(page);
  };
  std::size_t first_token = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Snapshot::Entry& each = snapshot.nodes[i];
    const auto tokens = std::span(snapshot.tokens).subspan(first_token, at(each.num_tokens));
    first_token += tokens.size();
    const auto pages =
        std::span(snapshot.pages).subspan(i * at(pages_per_block_), at(pages_per_block_));
    const auto broken = [&] {
      return Status::invalid_argument(fmt::format(
          "node {} below node {} cannot be in the prefix index", each.node, each.parent));
    };
    const std::optional<Node> parent = each.parent == kRoot ? Node{} : restored_node(each.parent);
    if (each.node <= last_node_ || each.node > snapshot.last_node || !parent ||
        (parent->slot != kNone && this->num_tokens(*parent) != block_size_) ||
        (each.parent != kRoot && each.scope != CacheScope{}) || find(*parent, tokens, each.scope)) {
      return broken();
    }
    last_node_ = each.node - 1;
    const std::optional<Node> node = insert(*parent, tokens, each.scope);
    if (!node) return broken();
    for (std::size_t group = 0; group + 1 < first_page_.size(); ++group) {
      const auto block = pages.subspan(at(first_page_[group]), num_pages_of(group));
      if (std::ranges::all_of(block, [](BlockId page) { return page == kNullBlock; })) continue;
      for (std::size_t page = 0; page < block.size(); ++page) {
        const auto others = block.first(page);
        if (!usable(block[page]) || std::ranges::find(others, block[page]) != others.end()) {
          return broken();
        }
      }
      put(*node, group, block);
    }
  }
  last_node_ = snapshot.last_node;
  for (std::int32_t slot = 0; slot < size_; ++slot) {
    const Slot& each = slots_[at(slot)];
    if (each.num_blocks > 0 || each.num_children > 0) continue;
    return Status::invalid_argument(
        fmt::format("node {} of the prefix index has neither blocks nor children", each.id));
  }
  return {};
}

Status PrefixIndex::check_starts() const {
  std::int32_t num_chained = 0;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    std::int32_t later = kNone;
    for (std::int32_t slot = starts_[i]; slot != kNone; slot = slots_[at(slot)].earlier) {
      const Slot& each = slots_[at(slot)];
      if (each.id == kRoot || start_of(id_of_parent(each), each.scope, tokens_of(slot)[0]) != i) {
        return Status::internal(fmt::format("node {} is in the wrong chain of starts", each.id));
      }
      if (each.later != later || (later != kNone && slots_[at(later)].id < each.id)) {
        return Status::internal(fmt::format("the chain of starts at node {} is broken", each.id));
      }
      if (++num_chained > size_) return Status::internal("a chain of starts has a cycle");
      later = slot;
    }
  }
  if (num_chained == size_) return {};
  return Status::internal(
      fmt::format("{} nodes are in chains of starts, the index has {}", num_chained, size_));
}

Status PrefixIndex::check_invariants() const {
  QUIRE_RETURN_IF_ERROR(check_starts());
  std::int32_t num_chained = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (std::int32_t slot = buckets_[i]; slot != kNone; slot = slots_[at(slot)].next) {
      const Slot& each = slots_[at(slot)];
      if (each.id == kRoot || (each.hash & (buckets_.size() - 1)) != i) {
        return Status::internal(fmt::format("node {} is in the wrong chain of the index", each.id));
      }
      if (each.hash != hash_of(id_of_parent(each), each.scope, tokens_of(slot))) {
        return Status::internal(fmt::format("node {}: the index has another hash", each.id));
      }
      if (++num_chained > size_) return Status::internal("a chain of the index has a cycle");
    }
  }
  std::int32_t num_nodes = 0;
  std::int64_t num_pages = 0;
  std::vector<std::int32_t> num_children(slots_.size(), 0);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& each = slots_[i];
    if (each.id == kRoot) continue;
    ++num_nodes;
    if (each.parent != kNone) {
      if (slots_[at(each.parent)].id == kRoot || slots_[at(each.parent)].id >= each.id) {
        return Status::internal(fmt::format("node {} has lost its parent", each.id));
      }
      ++num_children[at(each.parent)];
      if (slots_[at(each.parent)].num_tokens != block_size_) {
        return Status::internal(fmt::format("node {} follows a block that is not full", each.id));
      }
    }
    std::int32_t num_blocks = 0;
    for (std::size_t group = 0; group + 1 < first_page_.size(); ++group) {
      const auto pages = block({each.id, static_cast<std::int32_t>(i)}, group);
      num_blocks += pages.empty() ? 0 : 1;
      num_pages += std::ssize(pages);
      for (const BlockId page : pages) {
        if (page == kNullBlock || owners_[at(page)].slot != static_cast<std::int32_t>(i) ||
            owners_[at(page)].group != static_cast<std::int32_t>(group)) {
          return Status::internal(fmt::format("page {} does not know its node {}", page, each.id));
        }
      }
    }
    if (num_blocks != each.num_blocks) {
      return Status::internal(
          fmt::format("node {} counts {} blocks, it has {}", each.id, each.num_blocks, num_blocks));
    }
    if (num_blocks == 0 && each.num_children == 0) {
      return Status::internal(fmt::format("node {} has neither blocks nor children", each.id));
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].num_children != num_children[i]) {
      return Status::internal(fmt::format("node {} counts {} children, it has {}", slots_[i].id,
                                          slots_[i].num_children, num_children[i]));
    }
  }
  if (num_chained != size_ || num_nodes != size_) {
    return Status::internal(fmt::format("the index counts {} nodes, {} are chained, {} exist",
                                        size_, num_chained, num_nodes));
  }
  const auto num_owned =
      std::ranges::count_if(owners_, [](const Owner& each) { return each.slot != kNone; });
  if (num_owned != num_pages) {
    return Status::internal(
        fmt::format("{} pages are in the index, its nodes have {}", num_owned, num_pages));
  }
  return {};
}

}  // namespace quire
