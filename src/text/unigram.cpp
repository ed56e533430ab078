#include "text/unigram.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::size_t kAskEvery = 4096;

std::uint64_t edge_key(std::int32_t node, unsigned char byte) {
  return static_cast<std::uint64_t>(node) << 8 | byte;
}

}  // namespace

std::size_t PieceTree::slot_of(std::uint64_t key) const {
  const std::size_t mask = edges_.size() - 1;
  std::size_t slot = (key * 0x9E3779B97F4A7C15ULL) >> 20 & mask;
  while (edges_[slot].key != key && edges_[slot].key != kNoEdge) slot = (slot + 1) & mask;
  return slot;
}

void PieceTree::grow() {
  const std::vector<Edge> old = std::exchange(edges_, std::vector<Edge>(edges_.size() * 2));
  for (const Edge& edge : old) {
    if (edge.key != kNoEdge) edges_[slot_of(edge.key)] = edge;
  }
}

void PieceTree::insert(std::string_view piece, TokenId id, double score) {
  std::int32_t node = 0;
  for (const char c : piece) {
    const std::uint64_t key = edge_key(node, static_cast<unsigned char>(c));
    std::size_t slot = slot_of(key);
    if (edges_[slot].key == kNoEdge) {
      if (2 * (used_ + 1) > edges_.size()) {
        grow();
        slot = slot_of(key);
      }
      ++used_;
      edges_[slot] = {key, static_cast<std::int32_t>(ends_.size())};
      ends_.emplace_back();
    }
    node = edges_[slot].child;
  }
  End& end = ends_[static_cast<std::size_t>(node)];
  if (end.id < 0) end = {id, score};
}

std::int32_t PieceTree::child(std::int32_t node, unsigned char byte) const {
  return edges_[slot_of(edge_key(node, byte))].child;
}

void UnigramCutter::reach(std::size_t begin, std::size_t end, double score, TokenId id) {
  Best& best = best_[end];
  if (best.begin != UINT32_MAX && score <= best.score) return;
  best = {score, static_cast<std::uint32_t>(begin), id};
}

bool UnigramCutter::cut(std::string_view word, double unknown_score, std::vector<Piece>& pieces,
                        const std::function<bool()>& cancelled) {
  pieces.clear();
  best_.assign(word.size() + 1, {});
  std::size_t characters = 0;
  for (std::size_t at = 0; at < word.size();) {
    if (cancelled && ++characters % kAskEvery == 0 && cancelled()) return false;
    const double here = best_[at].score;
    const std::size_t size = symbol_size(word, at);
    bool has_character = false;
    std::int32_t node = 0;
    for (std::size_t end = at; end < word.size();) {
      node = tree_->child(node, static_cast<unsigned char>(word[end++]));
      if (node < 0) break;
      const TokenId id = tree_->id_at(node);
      if (id < 0) continue;
      reach(at, end, here + tree_->score_at(node), id);
      has_character |= end - at == size;
    }
    if (!has_character) reach(at, at + size, here + unknown_score, -1);
    at += size;
  }
  for (std::size_t end = word.size(); end > 0; end = best_[end].begin) {
    const Best& best = best_[end];
    const bool joins = best.id < 0 && !pieces.empty() && pieces.back().id < 0;
    if (joins) {
      pieces.back().begin = best.begin;
    } else {
      pieces.push_back({best.begin, static_cast<std::uint32_t>(end), best.id});
    }
  }
  std::ranges::reverse(pieces);
  return true;
}

}  // namespace quire
