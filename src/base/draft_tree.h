// Guesses at the tokens that follow a text, as a tree: each follows the text or another guess, and
// tokens with the same parent are guesses at the same position. A chain is a tree of one path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

// Most tokens of a tree.
inline constexpr std::int32_t kMaxTreeDrafts = 32;

// Borrows its lists.
class DraftTreeView {
 public:
  static constexpr std::int32_t kRoot = -1;  // as a parent: the text itself

  DraftTreeView() = default;
  // A chain: each token follows the one before it.
  DraftTreeView(std::span<const TokenId> chain) : tokens_(chain) {}     // NOLINT: any list is one
  DraftTreeView(const std::vector<TokenId>& chain) : tokens_(chain) {}  // NOLINT
  // `parents`: of each token its place in `tokens`, which is before it, or kRoot; empty: a chain.
  DraftTreeView(std::span<const TokenId> tokens, std::span<const std::int32_t> parents)
      : tokens_(tokens), parents_(parents) {}

  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  bool empty() const { return tokens_.empty(); }
  TokenId token(std::int32_t node) const { return tokens_[static_cast<std::size_t>(node)]; }
  std::int32_t parent(std::int32_t node) const {
    return parents_.empty() ? node - 1 : parents_[static_cast<std::size_t>(node)];
  }
  // The first so many tokens, which are a tree themselves.
  DraftTreeView first(std::int32_t count) const {
    const auto size = static_cast<std::size_t>(count);
    return {tokens_.first(size), parents_.empty() ? parents_ : parents_.first(size)};
  }
  // The guess that this token comes after `node` (kRoot: after the text).
  std::optional<std::int32_t> child(std::int32_t node, TokenId token) const {
    for (std::int32_t i = node + 1; i < size(); ++i) {
      if (parent(i) == node && this->token(i) == token) return i;
    }
    return std::nullopt;
  }
  // Whether each token comes after its parent. `size()` is within kMaxTreeDrafts.
  bool valid() const {
    if (size() > kMaxTreeDrafts) return false;
    if (!parents_.empty() && parents_.size() != tokens_.size()) return false;
    for (std::int32_t i = 0; i < size(); ++i) {
      if (parent(i) < kRoot || parent(i) >= i) return false;
    }
    return true;
  }

 private:
  std::span<const TokenId> tokens_;
  std::span<const std::int32_t> parents_;
};

// Its lists keep their capacity.
struct DraftTree {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> parents;  // as DraftTreeView's

  DraftTreeView view() const { return {tokens, parents}; }
  bool empty() const { return tokens.empty(); }
  void assign(DraftTreeView tree) {
    tokens.assign(tree.tokens().begin(), tree.tokens().end());
    parents.assign(tree.parents().begin(), tree.parents().end());
  }
  void clear() {
    tokens.clear();
    parents.clear();
  }
};

// Depth of each token: 1 follows the text. `tree` must be valid.
using DraftDepths = std::array<std::int32_t, kMaxTreeDrafts>;
DraftDepths depths_of(DraftTreeView tree);

// A tree in order of its paths: first the longest path from the text to a leaf, then what the
// longest of the others adds to it, and so on. So a path's own tokens follow one another, and none
// is deeper than the first path.
//
//   a -> b -> c -> d      a b c d | e f | g       paths {0, 4, depth 1}, {4, 2, depth 2, of 0},
//    \    \-> g                                         {6, 1, depth 3, of 0}
//     \-> e -> f
struct DraftPath {
  std::int32_t first = 0;  // its own tokens are [first, first + count) of the tree
  std::int32_t count = 0;
  std::int32_t depth = 1;    // of the first of them
  std::int32_t parent = -1;  // the path that it leaves, which comes before it; -1: the first path

  std::int32_t end_depth() const { return depth + count; }  // one behind the leaf's
};

// The tokens of `tree`, which must be valid, of at most this depth, and of at most so many paths,
// the longest ones, in order of the paths. `ordered` gets their parents, too.
void order_by_paths(DraftTreeView tree, std::int32_t max_depth, std::int32_t max_paths,
                    DraftTree& ordered);
// Tokens of the first path of a tree in that order.
std::int32_t num_on_first_path(DraftTreeView ordered);
// The paths of a tree in that order; the list keeps its capacity.
void paths_of(DraftTreeView ordered, std::vector<DraftPath>& paths);
// Which of them has the token as its own.
std::int32_t path_with(std::span<const DraftPath> paths, std::int32_t node);

}  // namespace quire
